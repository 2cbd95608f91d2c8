/** All clusters, worst first: which of them must be looked at? */
import { counted, duration } from "../format.js";
import { Waiting } from "../parts/failed.js";
import { Switch } from "../parts/switch.js";
import { ThemeSwitch } from "../parts/theme.js";
import { Poll } from "../poll.js";
import { go, parse } from "../router.js";
import { Component, html } from "../ui.js";
import { bySeverity, choiceHref, choiceOf, filtered, hasAllRows, isQuiet } from "./choice.js";
import { pressed } from "./keys.js";
import { FleetTable } from "./table.js";
import { STATES } from "./words.js";

const ROWS = "api/v1/fleet";

export class FleetPage extends Component {
  state = { choice: choiceOf(parse(location.hash)) };

  componentDidMount() {
    addEventListener("hashchange", () => this.setState({ choice: choiceOf(parse(location.hash)) }));
    addEventListener("keydown", pressed);
  }

  render(_, { choice }) {
    return html`<${Poll} url=${ROWS}>${({ answer, error }) => html`
      <${Top} choice=${choice} answer=${answer} error=${error} />
      ${error && html`<div class="banner bad" role="alert"><b>${error.message}</b>${" "}
        ${answer ? "What is shown is what it said last." : "Is it running?"}</div>`}
      <main id="content" tabindex="-1" class="fleet">${answer
        ? html`<${Fleet} fleet=${answer} choice=${choice} />`
        : !error && html`<${Waiting} what="Asking for the clusters" />`}</main>`}<//>`;
  }
}

function Top({ choice, answer, error }) {
  const filter = event =>
    go(choiceHref({ ...choice, q: event.target.value.trim() }), { replace: true });
  return html`<header class="top">
    <a class="brand" href="#/">kafka-twin</a><span class="cluster">all clusters</span>
    <form role="search" class="search fleet-search" onSubmit=${event => event.preventDefault()}>
      <input id="search" type="search" value=${choice.q} autocomplete="off" onInput=${filter}
        aria-label="Clusters with this in name, label, sentence or version"
        placeholder="/ name, label, sentence, version" />
    </form>
    <span class="state"><${Asked} answer=${answer} error=${error} /><${ThemeSwitch} /></span>
  </header>`;
}

/** When the rows were asked for. It counts on by itself while nobody answers. */
class Asked extends Component {
  componentDidMount() {
    this.timer = setInterval(() => this.forceUpdate(), 1_000);
  }

  componentWillUnmount() {
    clearInterval(this.timer);
  }

  render({ answer, error }) {
    if (!answer) return null;
    if (this.of !== answer) [this.of, this.since] = [answer, performance.now()];
    return html`<span class=${`pill ${error ? "bad" : "good"}`}>asked ${
      duration((performance.now() - this.since) / 1_000)} ago</span>`;
  }
}

function Fleet({ fleet: { clusters, labels }, choice }) {
  const shown = filtered(clusters, choice.q);
  const loud = clusters.filter(each => !isQuiet(each)).length;
  document.title = `${loud} of ${counted(clusters.length, "cluster")} · kafka-twin`;
  const allRows = hasAllRows(choice, clusters.length);
  return html`<section class="card" aria-labelledby="title">
    <div class="over-fleet">
      <h1 id="title">${sentence(loud, clusters.length)}</h1>
      <${Counts} clusters=${clusters} />
      <span class="choices">
        <${Groups} labels=${labels} choice=${choice} />
        <span class="muted">quiet ones as</span>
        <${Switch} label="Clusters with nothing to say" options=${[
          [choiceHref({ ...choice, rows: "few" }), "names", !allRows],
          [choiceHref({ ...choice, rows: "all" }), "rows", allRows]]} />
      </span>
    </div>
    <p role="status" class=${choice.q ? "pager" : "unseen"}>${choice.q
      && `${counted(shown.length, "cluster")} of ${clusters.length} with “${choice.q}”`}</p>
    ${shown.length > 0
      && html`<${FleetTable} clusters=${shown} group=${choice.group} allRows=${allRows} />`}
  </section>`;
}

function sentence(loud, total) {
  if (!total) return "No cluster is configured.";
  if (!loud) return `None of ${counted(total, "cluster")} needs a look.`;
  return `${loud} of ${counted(total, "cluster")} ${loud === 1 ? "needs" : "need"} a look.`;
}

function Counts({ clusters }) {
  const counts = bySeverity(clusters);
  return html`<span class="counts">${Object.entries(STATES).map(([severity, state]) => counts[severity]
    && html`<span key=${severity} class=${`pill ${state}`}>${counts[severity]} ${severity}</span>`)}</span>`;
}

function Groups({ labels, choice }) {
  const names = Object.keys(labels);
  if (!names.length) return null;
  const options = ["", ...names].map(name => [
    choiceHref({ ...choice, group: name }), name || "nothing", choice.group === name]);
  return html`<span class="muted">group by</span><${Switch} label="Groups of clusters" options=${options} />`;
}
