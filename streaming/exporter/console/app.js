/** The frame around the views: which one the URL names, and what all of them know. */
import { ClusterView } from "./cluster/view.js";
import { GroupList } from "./consumers/list.js";
import { GroupPage } from "./consumers/page.js";
import { LossesView } from "./losses/view.js";
import { KEYS, Keys } from "./parts/keys.js";
import { TopBar } from "./parts/topbar.js";
import { Banner } from "./past/banner.js";
import { PastBar } from "./past/bar.js";
import { chosen } from "./past/moment.js";
import { PLAYER } from "./past/player.js";
import { noteSummary } from "./past/when.js";
import { PartitionList } from "./partitions/list.js";
import { PartitionPage } from "./partitions/page.js";
import { PlansView } from "./plans/view.js";
import { watch } from "./pulse.js";
import { parse } from "./router.js";
import { Tour } from "./start/tour.js";
import { TimelineView } from "./timeline/view.js";
import { TwinView } from "./twin/view.js";
import { Component, html } from "./ui.js";

/** Before the first answer, and before the first one about another moment. */
const NOTHING = { summary: null, brokers: null, error: null };

/** The moment in the URL, or the cycle that it turned out to be if it is written as a time ago. */
const momentOf = (summary, at) => Date.parse(at) || Date.parse(summary.at);

const HELD_MS = 2_000;

/** Until the answers about another moment are there, the page stays as long, and where it is. */
function holdHeight() {
  const { style, offsetHeight } = document.getElementById("content");
  style.minHeight = `${offsetHeight}px`;
  setTimeout(() => { style.minHeight = ""; }, HELD_MS);
}

export class App extends Component {
  state = { route: parse(location.hash), pulse: NOTHING, at: chosen() };

  componentDidMount() {
    const ask = watch(pulse => this.setState({ pulse }));
    addEventListener("popstate", () => {
      if (chosen() === this.state.at) return;
      if (!PLAYER.isPlaying) holdHeight();
      this.setState({ at: chosen() });
      ask();
    });
    addEventListener("hashchange", () => {
      const before = this.state.route.path.join("/");
      const route = parse(location.hash);
      this.setState({ route }, () => {
        if (route.path.join("/") !== before) scrollTo(0, 0);
      });
    });
    PLAYER.changed = () => this.forceUpdate();
    addEventListener("keydown", event => KEYS.pressed(event));
  }

  render(_, { route, pulse, at }) {
    const view = viewOf(route.path);
    const name = pulse.summary?.cluster;
    const { summary } = pulse;
    const shownMs = summary?.past && (pulse.at ? momentOf(summary, pulse.at) : summary.past.end_ms);
    noteSummary(summary);
    if (summary?.past) {
      const isShown = pulse.at === at && !pulse.error;
      PLAYER.note(summary.past, shownMs, summary.resolution_ms, isShown);
    }
    if (PLAYER.isPlaying && pulse.error) PLAYER.stop();
    document.title = [view.title(route), at, name, "kafka-twin"].filter(Boolean).join(" · ");
    return html`
      <a class="skip" href=${location.hash || "#/"} onClick=${skip}>Skip to the content</a>
      <${TopBar} current=${view.name} pulse=${pulse} route=${route} />
      ${summary?.past && html`<${PastBar} span=${summary.past}
        shownMs=${at ? momentOf(summary, at) : null} />`}
      <${Banner} pulse=${pulse} at=${at} isPlaying=${PLAYER.isPlaying} />
      <main id="content" tabindex="-1">${PLAYER.isPlaying
        ? html`<${view.component} key="playing" route=${route} pulse=${pulse} />`
        : html`<${view.component} key=${at} route=${route} pulse=${pulse.at === at ? pulse : NOTHING} />`}
      </main>
      <${Keys} /><${Tour} isOffered=${view.name === "cluster" && summary?.up} />`;
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
