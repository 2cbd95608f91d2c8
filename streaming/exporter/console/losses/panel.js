/** What would happen if the chosen brokers and racks were lost. */
import { url } from "../api.js";
import { choiceHref, lossOf } from "../cluster/choice.js";
import { broker, count, counted, ended, listed } from "../format.js";
import { Command, quoted } from "../parts/copy.js";
import { Failed, Waiting } from "../parts/failed.js";
import { isPast } from "../past/when.js";
import { Poll } from "../poll.js";
import { href, partitionHref } from "../router.js";
import { html } from "../ui.js";
import { COVERAGES, OUTCOMES } from "../words.js";
import { Gate } from "./gate.js";
import { HurtGroups } from "./hurt.js";
import { Return } from "./return.js";
import { TierOutageMeanwhile } from "./tier_outage.js";

const SHOWN = 8;

/** The rows of the table: what becomes of the partitions that are led now. */
const ROWS = [
  ["led by a warm replica in sync", "", "clean", ["warm", "assumed"]],
  ["led by one in sync, not judged", "", "clean", ["not_judged"]],
  ["led by a cold replica in sync", "warn", "clean", ["cold"]],
  ["led from the ELR", "warn", "elr", null],
  ["led by the last known leader", "bad", "last_known", null],
  ["led by one out of sync (unclean)", "bad", "unclean", null],
  ["nobody leads", "bad", "none", null],
];

export function LossPanel({ choice, rules }) {
  const names = [...choice.racks.map(rack => `rack ${rack}`),
    ...choice.brokers.map(id => `broker ${id}`)];
  return html`<section class="card panel" aria-labelledby="loss-title">
    <h2 id="loss-title">If ${listed(names)} ${
      isPast() ? "had been lost then" : "were lost now"}</h2>
    <p><a href=${choiceHref({ ...choice, brokers: [], racks: [] })}>Lose nothing</a></p>
    <${Poll} url=${url("whatif/lose", { ...lossOf(choice), limit: SHOWN })}>
      ${state => html`<${Loss} ...${state} rule=${choice.rule} titles=${rules} />`}<//>
    ${choice.brokers.length === 1 && !choice.racks.length
      && html`<${Gate} broker=${choice.brokers[0]} /><${Return} broker=${choice.brokers[0]} />`}
    <${TierOutageMeanwhile} key=${names} lost=${lossOf(choice)}
      title=${`If remote storage ${isPast() ? "had been" : "were"} away as well`} />
    <h3>The same, for a shell</h3>
    <${Command} text=${["kafka-twin whatif lose", ...choice.brokers.map(id => `--broker ${id}`),
      ...choice.racks.map(rack => `--rack ${quoted(rack)}`)].join(" ")} />
  </section>`;
}

function Loss({ answer, error, rule, titles }) {
  if (!answer) {
    return error ? html`<${Failed} error=${error} />` : html`<${Waiting} what="Asking" />`;
  }
  const rules = Object.keys(answer.outcomes);
  const counts = ROWS.map(([text, state, outcome, coverages]) => [text, state,
    rules.map(name => tally(answer.outcomes[name][outcome], coverages))])
    .filter(([, , numbers], i) => numbers.some(Boolean) || i === 0 || i === ROWS.length - 1);
  return html`<${Failed} error=${error} />
    ${answer.stale && html`<p class="bad">${ended(answer.stale)}</p>`}
    <table class="numbers"><thead><tr><th scope="col">${
        answer.brokers.length > 1 ? "partitions they lead" : "partitions it leads"}</th>
        ${rules.map(name => html`<th scope="col">${titles[name] ?? name}</th>`)}</tr></thead>
      <tbody>${counts.map(([text, state, numbers]) => html`<tr>
        <th scope="row" class=${numbers.some(Boolean) ? state : "muted"}>${text}</th>
        ${numbers.map(number => html`<td class=${number ? state : "muted"}>${count(number)}</td>`)}
        </tr>`)}</tbody></table>
    ${answer.elects === false && html`<p class="bad">No majority of the controllers would be left:
      none of these leaders is elected before one is back.</p>`}
    ${answer.under_min_isr > 0 && html`<p class="bad">${counted(answer.under_min_isr, "partition")} would
      end under min ISR: acks=all is refused.</p>`}
    <${HurtGroups} groups=${answer.groups} rule=${rule} />
    <${Hurt} answer=${answer} rule=${rules.includes(rule) ? rule : "kafka"} />
    <${Help} answer=${answer} />`;
}

function tally(held, coverages) {
  const names = coverages ?? Object.keys(held ?? {});
  return names.reduce((sum, name) => sum + (held?.[name] ?? 0), 0);
}

/** Plans that would help, as commands: the console itself changes nothing. */
function Help({ answer: { outcomes, brokers } }) {
  const cold = rule => Object.values(outcomes[rule] ?? {}).reduce(
    (sum, held) => sum + (held.cold ?? 0), 0);
  const order = outcomes.kip1303 && cold("kip1303") < cold("kafka");
  const leads = Object.keys(outcomes.kafka ?? {}).length > 0 && brokers.length === 1;
  if (!order && !leads) return null;
  return html`<h3>What would help</h3>
    ${order && html`<p><a href="#/plans">Warm replicas before cold ones</a>; no data moves:</p>
      <${Command} text="kafka-twin plan order" />`}
    ${leads && html`<p><a href=${href(["plans"], { demote: brokers[0] })}>Leaders elsewhere</a> before the
      broker goes:</p>
      <${Command} text=${`kafka-twin plan demote --broker ${brokers[0]}`} />`}`;
}

/** The partitions that are hurt most. */
function Hurt({ answer, rule }) {
  if (!answer.total) return html`<p>No partition would lose its leader.</p>`;
  return html`<h3>The worst of ${counted(answer.total, "partition")}</h3>
    <table class="list"><thead><tr><th scope="col">partition</th><th scope="col">next leader</th>
      <th scope="col">ISR</th></tr></thead>
    <tbody>${answer.partitions.map(each => html`<tr key=${`${each.topic}-${each.partition}`}>
      <th scope="row"><a href=${partitionHref(each.topic, each.partition)}>${
        each.topic}-${each.partition}</a></th>
      <td class=${stateOf(each, rule)}>${nextLeader(each, rule)}</td>
      <td class=${each.isr < each.min_isr ? "bad" : ""}
        title=${`min.insync.replicas: ${each.min_isr}`}>${each.isr}/${each.min_isr}</td>
      </tr>`)}</tbody></table>`;
}

function nextLeader({ next_leaders: next }, rule) {
  const { leader, outcome, coverage } = next[rule];
  if (leader < 0) return "nobody";
  const words = [outcome === "clean" ? "" : OUTCOMES[outcome] ?? "unknown", COVERAGES[coverage]];
  return `${broker(leader)} (${words.filter(Boolean).join(", ")})`;
}

function stateOf({ next_leaders: next }, rule) {
  const { outcome, coverage } = next[rule];
  if (outcome !== "clean") return outcome === "elr" ? "warn" : "bad";
  return coverage === "cold" ? "warn" : "";
}
