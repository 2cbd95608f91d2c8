/** The answer to the question with which people come: which broker can I lose? */
import { ask, url } from "../api.js";
import { counted, listed } from "../format.js";
import { chosen } from "../past/moment.js";
import { href } from "../router.js";
import { Component, html } from "../ui.js";
import { onlyHere } from "./brokers.js";
import { withOutcome } from "./losses.js";

const MOST_NAMED = 5;
const RACKS_EVERY_MS = 10_000;
const FIRST_AFTER_MS = 500; // questions about racks take long: the matrix is asked for first

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

/** The racks, from [{rack, outcomes, apart}] of those whose loss is known; ``apart`` of the partitions
 * have one replica, and are said apart. */
export function rackSentence(losses) {
  if (losses.length < 2) return "";
  const bad = losses.map(({ rack, outcomes, apart }) => ({
    rack, offline: Math.max(0, withOutcome(outcomes, ["none"]) - apart),
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

  render({ rule, brokers }, { losses }) {
    const apart = rack => brokers.filter(each => each.rack === rack).reduce(
      (sum, each) => sum + onlyHere(each), 0);
    return html` ${rackSentence(losses.map(({ rack, byRule }) => (
      { rack, outcomes: byRule[rule] ?? byRule.kafka, apart: apart(rack) })))}`;
  }
}

/** Which broker can be lost: the API's own sentence. What is said apart is no alarm. */
const clausesOf = loss => loss.sentence.replace(/\.$/, "").split("; ");

function Apart({ loss }) {
  const [, ...apart] = clausesOf(loss);
  if (!apart.length) return null;
  const which = loss.one_replica ? "one_replica" : "no_spare";
  return html`<p class="apart"><a href=${href(["partitions"], { redundancy: which })}>${
    apart.join("; ")}.</a></p>`;
}

export function Sentence({ brokers, summary, rule }) {
  const racks = [...new Set(brokers.map(each => each.rack).filter(Boolean))].sort();
  const now = presentSentence(brokers, summary);
  const { loss } = summary;
  const serving = loss.can_be_lost.length + loss.cannot_be_lost.length;
  if (!summary.up && serving > 0) {
    return html`<h1 class="sentence"><span class=${summary.not_live ? "warn" : "bad"}>${
        summary.not_live ? "At that time: " : "Last known state: "}</span>
      <span class="muted">${clausesOf(loss)[0]}.</span></h1><${Apart} loss=${loss} />`;
  }
  const allSilent = serving > 0 && loss.silent.length === serving;
  return html`<h1 class="sentence">
    ${now && html`<span class="bad">${now} </span>`}
    <span class=${loss.cannot_be_lost.length || loss.silent.length ? "bad" : ""}>${clausesOf(loss)[0]}.</span>
    ${!allSilent && html`<${RackLosses} key=${`${chosen()}\n${racks.join("\n")}`} racks=${racks} rule=${rule}
      brokers=${brokers} />`}
  </h1><${Apart} loss=${loss} />`;
}
