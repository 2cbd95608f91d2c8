/** Name, cluster, views, search, track record and freshness. */
import { ALL_CLUSTERS } from "../fleet/place.js";
import { counted, duration } from "../format.js";
import { ageSeconds } from "../pulse.js";
import { go, href } from "../router.js";
import { Component, html } from "../ui.js";
import { ThemeSwitch } from "./theme.js";
import { Time } from "./time.js";

const VIEWS = [["cluster", "Cluster", "#/"], ["partitions", "Partitions", "#/partitions"],
  ["consumers", "Consumers", "#/consumers"], ["losses", "Losses", "#/losses"],
  ["plans", "Plans", "#/plans"],
  ["timeline", "Timeline", "#/timeline"], ["twin", "Twin", "#/twin"]];

export function TopBar({ current, pulse, route }) {
  return html`<header class="top">
    <a class="brand" href="#/">kafka-twin</a>
    ${ALL_CLUSTERS && html`<a class="all-clusters" href=${ALL_CLUSTERS}>All clusters</a>`}
    <span class="cluster">${pulse.summary?.cluster ?? ""}</span>
    <nav aria-label="Views">${VIEWS.map(([name, text, to]) => html`
      <a href=${to} aria-current=${name === current ? "page" : undefined}>${text}</a>`)}</nav>
    <${Search} text=${route.path[0] === "partitions" ? route.query.get("search") ?? "" : ""} />
    <span class="state">
      <${Record} summary=${pulse.summary} />
      <${Freshness} pulse=${pulse} />
      <${ThemeSwitch} />
    </span>
  </header>`;
}

/** A search leads to the list of partitions. */
function Search({ text }) {
  const search = event => {
    event.preventDefault();
    go(href(["partitions"], { search: new FormData(event.target).get("search").trim() }));
  };
  return html`<form role="search" class="search" onSubmit=${search}>
    <input id="search" name="search" type="search" value=${text} autocomplete="off"
      aria-label="Search topics, partitions and groups" placeholder="/ search topic, partition, group" />
  </form>`;
}

/** What became of the predictions. */
export function recordOf(summary) {
  if (!summary?.predictions) return null;
  const sums = { right: 0, wrong: 0, overtaken: 0, unforeseen: 0 };
  for (const byResult of Object.values(summary.predictions)) {
    for (const [result, number] of Object.entries(byResult)) sums[result] += number;
  }
  return { ...sums, total: sums.right + sums.wrong + sums.overtaken + sums.unforeseen };
}

function Record({ summary }) {
  const record = recordOf(summary);
  if (!record) return null;
  if (!record.total) return html`<a class="pill" href="#/twin">no leader change yet</a>`;
  return html`<a class=${`pill ${record.wrong ? "bad" : "good"}`} href="#/twin"
    title="Leader changes, and how they had been predicted">
    ${counted(record.total, "leader change")}, ${record.wrong} predicted wrong</a>`;
}

/** How old what is shown is, or of when. It counts on by itself, also while nobody answers. */
class Freshness extends Component {
  componentDidMount() {
    this.timer = setInterval(() => this.forceUpdate(), 1_000);
  }

  componentWillUnmount() {
    clearInterval(this.timer);
  }

  render({ pulse }) {
    const age = ageSeconds(pulse);
    if (age === null) return html`<span class="pill">nothing observed yet</span>`;
    if (pulse.summary.not_live) {
      return html`<span class="pill warn">the past: <${Time} ms=${pulse.summary.observed_at_ms} /></span>`;
    }
    const state = pulse.error || !pulse.summary.up ? "bad" : "good";
    return html`<span class=${`pill ${state}`}>observed ${duration(age)} ago</span>`;
  }
}
