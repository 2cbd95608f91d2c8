/** The frame around the views: which one the URL names, and what all of them know. */
import { ClusterView } from "./cluster/view.js";
import { GroupList } from "./consumers/list.js";
import { GroupPage } from "./consumers/page.js";
import { ended } from "./format.js";
import { LossesView } from "./losses/view.js";
import { KEYS, Keys } from "./parts/keys.js";
import { TopBar } from "./parts/topbar.js";
import { PartitionList } from "./partitions/list.js";
import { PartitionPage } from "./partitions/page.js";
import { PlansView } from "./plans/view.js";
import { watch } from "./pulse.js";
import { parse } from "./router.js";
import { TimelineView } from "./timeline/view.js";
import { TwinView } from "./twin/view.js";
import { Component, html } from "./ui.js";

export class App extends Component {
  state = { route: parse(location.hash), pulse: { summary: null, brokers: null, error: null } };

  componentDidMount() {
    watch(pulse => this.setState({ pulse }));
    addEventListener("hashchange", () => {
      const before = this.state.route.path.join("/");
      const route = parse(location.hash);
      this.setState({ route }, () => {
        if (route.path.join("/") !== before) scrollTo(0, 0);
      });
    });
    addEventListener("keydown", event => KEYS.pressed(event));
  }

  render(_, { route, pulse }) {
    const view = viewOf(route.path);
    const name = pulse.summary?.cluster;
    document.title = [view.title(route), name, "kafka-twin"].filter(Boolean).join(" · ");
    return html`
      <a class="skip" href=${location.hash || "#/"} onClick=${skip}>Skip to the content</a>
      <${TopBar} current=${view.name} pulse=${pulse} route=${route} />
      <${Banner} pulse=${pulse} />
      <main id="content" tabindex="-1">
        <${view.component} route=${route} pulse=${pulse} />
      </main>
      <${Keys} />`;
  }
}

function skip(event) {
  event.preventDefault();
  document.getElementById("content").focus();
}

const VIEWS = [
  { name: "cluster", component: ClusterView, title: () => "Cluster", at: path => !path.length },
  {
    name: "partitions", component: PartitionPage, at: p => p[0] === "partitions" && p.length === 3,
    title: ({ path }) => `${path[1]}-${path[2]}`,
  },
  {
    name: "partitions", component: PartitionList, title: () => "Partitions",
    at: path => path[0] === "partitions",
  },
  {
    name: "consumers", component: GroupPage, title: ({ path }) => path[1],
    at: path => path[0] === "consumers" && path.length === 2,
  },
  {
    name: "consumers", component: GroupList, title: () => "Consumers",
    at: path => path[0] === "consumers",
  },
  { name: "losses", component: LossesView, title: () => "Losses", at: path => path[0] === "losses" },
  { name: "plans", component: PlansView, title: () => "Plans", at: path => path[0] === "plans" },
  {
    name: "timeline", component: TimelineView, title: () => "Timeline",
    at: path => path[0] === "timeline",
  },
  { name: "twin", component: TwinView, title: () => "Twin", at: path => path[0] === "twin" },
  { name: "", component: NotFound, title: () => "Not found", at: () => true },
];

const viewOf = path => VIEWS.find(view => view.at(path));

function NotFound() {
  return html`<section class="card"><h1>There is no such view</h1>
    <p><a href="#/">Show the cluster</a></p></section>`;
}

/** What makes everything below it doubtful: nobody answers, or what is shown is old. */
function Banner({ pulse }) {
  const { summary, error } = pulse;
  if (error) {
    return html`<div class="banner bad" role="alert">
      <b>${error.message}</b>${" "}
      ${summary ? "What is shown is what it said last." : "Is it running?"}</div>`;
  }
  if (summary?.not_live) {
    return html`<div class="banner past" role="status">
      <b>This is the past:</b> ${ended(summary.why_not_up)}</div>`;
  }
  if (summary && !summary.up) {
    return html`<div class="banner bad" role="alert">
      <b>Do not rely on this page:</b> ${ended(summary.why_not_up)}</div>`;
  }
  return null;
}
