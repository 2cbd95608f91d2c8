/** The answer to the question with which people come: which broker can I lose? */
import { ask, url } from "../api.js";
import { counted, listed } from "../format.js";
import { Component, html } from "../ui.js";
import { harmed, lossesOf, withOutcome } from "./losses.js";

const MOST_NAMED = 5;
const RACKS_EVERY_MS = 10_000;
const FIRST_AFTER_MS = 500; // questions about racks take long: the matrix is asked for first

/** The brokers as a sentence; {text, state}. */
export function brokerSentence(brokers, rule) {
  const up = brokers.filter(each => each.fenced !== true && each.listed !== false);
  const leading = up.filter(each => each.loss_partitions);
  if (!leading.length) return { text: "Nothing is known of any broker yet.", state: "unknown" };
  const not = leading.filter(each => harmed(lossesOf(each, rule)) > 0).map(each => each.broker);
  if (!not.length) return { text: "You can lose any one broker.", state: "good" };
  if (not.length === leading.length) {
    return { text: "You cannot lose any broker.", state: "bad" };
  }
  const can = leading.filter(each => !not.includes(each.broker)).map(each => each.broker);
  if (not.length <= MOST_NAMED && not.length <= can.length) {
    return { text: `You can lose any broker but ${listed(not)}.`, state: "bad" };
  }
  if (can.length <= MOST_NAMED) {
    return { text: `The only brokers you can lose are ${listed(can)}.`, state: "bad" };
  }
  return { text: `You cannot lose ${not.length} of ${leading.length} brokers.`, state: "bad" };
}

/** What is wrong already. */
export function presentSentence(brokers, summary) {
  const down = brokers.filter(each => each.fenced === true || each.listed === false);
  const parts = [];
  if (down.length) {
    const which = down.length > MOST_NAMED ? `${down.length} brokers are`
      : `Broker${down.length > 1 ? "s" : ""} ${listed(down.map(each => each.broker))} ${
        down.length > 1 ? "are" : "is"}`;
    parts.push(`${which} down.`);
  }
  const offline = summary?.partitions_offline;
  if (offline) {
    parts.push(`${counted(offline, "partition")} ${offline === 1 ? "has" : "have"} no leader.`);
  }
  return parts.join(" ");
}

/** The racks, from [{rack, outcomes}] of those whose loss is known. */
export function rackSentence(losses) {
  if (losses.length < 2) return "";
  const bad = losses.map(({ rack, outcomes }) => ({
    rack, offline: withOutcome(outcomes, ["none"]),
    unclean: withOutcome(outcomes, ["last_known", "unclean"]),
  })).filter(each => each.offline + each.unclean > 0);
  if (!bad.length) return "Losing any one rack takes no partition offline.";
  const [worst] = [...bad].sort((a, b) => b.offline - a.offline || b.unclean - a.unclean);
  const what = worst.offline ? `take ${counted(worst.offline, "partition")} offline`
    : `risk records of ${counted(worst.unclean, "partition")}`;
  const others = bad.length - 1;
  return `Losing rack ${worst.rack} would ${what}${
    others ? `; ${others} more ${others === 1 ? "rack" : "racks"} would harm some as well` : ""}.`;
}

/** Asks for the loss of every rack in turn, since each question takes the processor. */
class RackLosses extends Component {
  state = { losses: [] };

  componentDidMount() {
    this.stopped = new AbortController();
    this.timer = setTimeout(() => this.turn(), FIRST_AFTER_MS);
  }

  componentWillUnmount() {
    this.stopped.abort();
    clearTimeout(this.timer);
  }

  async turn() {
    const losses = [];
    try {
      for (const rack of this.props.racks) {
        const lost = await ask(url("whatif/lose", { rack, limit: 0 }), this.stopped.signal);
        losses.push({ rack, byRule: lost.outcomes });
      }
      this.setState({ losses });
    } catch {
      if (this.stopped.signal.aborted) return;
      this.setState({ losses: [] }); // the banner says why; an old answer would be a wrong one
    }
    this.timer = setTimeout(() => this.turn(), RACKS_EVERY_MS);
  }

  render({ rule }, { losses }) {
    return html` ${rackSentence(losses.map(({ rack, byRule }) => (
      { rack, outcomes: byRule[rule] ?? byRule.kafka })))}`;
  }
}

export function Sentence({ brokers, summary, rule }) {
  const racks = [...new Set(brokers.map(each => each.rack).filter(Boolean))].sort();
  const { text, state } = brokerSentence(brokers, rule);
  const now = presentSentence(brokers, summary);
  return html`<h1 class="sentence">
    ${now && html`<span class="bad">${now} </span>`}
    <span class=${state === "bad" ? "bad" : ""}>${text}</span>
    <${RackLosses} key=${racks.join("\n")} racks=${racks} rule=${rule} />
  </h1>`;
}
