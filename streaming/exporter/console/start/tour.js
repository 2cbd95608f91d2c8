/** Five steps that show what the console answers. It is offered once, and begins only if asked for. */
import { go } from "../router.js";
import { Component, html } from "../ui.js";

const KEY = "kafka-twin-tour";

const STEPS = [
  ["h1.sentence", "Which broker can be lost",
    "The first sentence is the answer for now. What no restart can make safe, such as partitions of one "
    + "replica, stands below it, apart."],
  [".matrix", "Lose one, and see",
    "A column is a broker, a row a topic, a square a replica. Click a broker or a rack: it is taken as lost, "
    + "and the replicas that would lead are ringed. Nothing changes in Kafka."],
  ["[aria-label=Totals]", "What is at risk",
    "Each number leads to its partitions. A partition's page says why a replica is behind, who leads next, "
    + "and what to do."],
  [".top nav", "Two at once, restarts, the past",
    "Losses has every pair of brokers and every rack. Plans has the order of a rolling restart, as commands. "
    + "Timeline has what happened."],
  [".top .state", "Whether to trust it",
    "How old the page is, and how many leader changes the twin foretold right. The view Twin says what it "
    + "does not know."],
];

/** Whether it was taken or declined on this machine. */
function isDone() {
  try {
    return localStorage.getItem(KEY) === "done";
  } catch {
    return true; // storage is off: it would be offered on every visit
  }
}

class Starter {
  start = () => {};
}

/** Starts the tour from anywhere. */
export const TOUR = new Starter();

export class Tour extends Component {
  state = { step: isDone() ? null : -1 };

  componentDidMount() {
    TOUR.start = () => {
      go("#/");
      this.show(0);
    };
  }

  /** The view of a step may be drawn later than the step, or anew: the frame draws both, this last. */
  componentDidUpdate() {
    const { step } = this.state;
    if (step === null || step < 0 || this.marked?.matches(".toured") && this.marked.isConnected) return;
    this.marked = document.querySelector(STEPS[step][0]);
    this.marked?.classList.add("toured");
    this.marked?.scrollIntoView({ block: "nearest" });
  }

  componentWillUnmount() {
    this.unmark();
  }

  unmark() {
    this.marked?.classList.remove("toured");
    this.marked = null;
  }

  show = step => {
    this.unmark();
    this.setState({ step });
  };

  end = () => {
    this.unmark();
    try {
      localStorage.setItem(KEY, "done");
    } catch {
      // It is not offered then either.
    }
    this.setState({ step: null });
  };

  render({ isOffered }, { step }) {
    if (step === null || (step < 0 && !isOffered)) return null;
    const end = html`<button type="button" class="quiet" onClick=${this.end}>${
      step < 0 ? "Not now" : "End the tour"}</button>`;
    if (step < 0) {
      return html`<aside class="tour" aria-label="Tour">
        <p>New here? ${STEPS.length} steps show what this page answers.</p>
        <p class="controls"><button type="button" onClick=${() => this.show(0)}>Show me</button>${end}</p></aside>`;
    }
    const [, title, text] = STEPS[step];
    const isLast = step === STEPS.length - 1;
    return html`<aside class="tour" aria-label="Tour"><div role="status">
        <h2>${step + 1} of ${STEPS.length}: ${title}</h2><p>${text}</p></div>
      <p class="controls">
        ${step > 0 && html`<button type="button" onClick=${() => this.show(step - 1)}>Back</button>`}
        <button type="button" onClick=${isLast ? this.end : () => this.show(step + 1)}>${
          isLast ? "Done" : "Next"}</button>
        ${!isLast && end}</p></aside>`;
  }
}
