/** Each broker: may it be restarted, why not, what it costs, and in which order. */
import { bytes, count, counted, ended, listed } from "../format.js";
import { Command, ofWhatIsShown } from "../parts/copy.js";
import { Failed, Waiting } from "../parts/failed.js";
import { Verdict } from "../parts/verdict.js";
import { Switch } from "../parts/switch.js";
import { isPast, nowOrThen } from "../past/when.js";
import { Poll } from "../poll.js";
import { href } from "../router.js";
import { html } from "../ui.js";

const EVERY_MS = 30_000; // the gate is asked about every broker
const NAMED = 3;

export function Roll({ asked, racks, to }) {
  return html`<p class="controls"><${Switch} label="Brokers that go together" options=${[
      [to(false), "one at a time", !racks], [to(true), "a rack at a time", racks]]} /></p>
    <${Poll} url=${asked} every=${EVERY_MS}>${({ answer, error, url }) => html`
      <${Failed} error=${error} />
      ${answer ? html`<${Answer} answer=${answer} isOld=${url !== asked} />`
        : !error && html`<${Waiting} what="Asking the gate about every broker" />`}`}<//>
    <${Command} text=${`kafka-twin plan roll${racks ? " --racks" : ""}`} />
    ${isPast() ? html`<p class="muted">The order held as the cluster was then.</p>` : html`
    <p class="muted">The order holds as the cluster is now. After each restart wait until every broker is in
      sync again, and ask anew: <code>${ofWhatIsShown("kafka-twin gate in-sync")}</code>, then${" "}
      <code>${ofWhatIsShown("kafka-twin plan roll --next")}</code>.</p>`}`;
}

function Answer({ answer, isOld }) {
  if (answer.stale) return html`<p class="bad">No plan: ${ended(answer.stale)}</p>`;
  const { batches, left_out: leftOut } = answer;
  return html`<p>${summaryOf(batches, leftOut)}${isOld ? " …" : ""}</p>
    <div class="wide" tabindex="0" role="region" aria-label="Brokers and restarts"><table class="list roll">
    <thead><tr><th scope="col">order</th><th scope="col">brokers</th><th scope="col">rack</th>
      <th scope="col">verdict</th><th scope="col">why, or what it costs while it lasts</th></tr></thead>
    <tbody>${batches.map((each, i) => html`<tr key=${each.brokers.join()}>
        <td>${i + 1}.</td><th scope="row"><${Brokers} ids=${each.brokers} /></th>
        <td>${each.rack ?? "unknown"}</td><td><${Verdict} verdict="safe" /></td>
        <td class="text">${costOf(each.costs.kafka)}${hurtOf(each)}</td></tr>`)}
      ${leftOut.map(each => html`<tr key=${each.broker}><td class="muted">not ${nowOrThen()}</td>
        <th scope="row"><${Brokers} ids=${[each.broker]} /></th><td></td>
        <td><${Verdict} verdict=${each.verdict} then=${each.once_allowed} /></td>
        <td class="text"><${Reasons} reasons=${each.reasons} /></td></tr>`)}</tbody></table></div>`;
}

function summaryOf(batches, leftOut) {
  const able = batches.reduce((sum, each) => sum + each.brokers.length, 0);
  const total = able + leftOut.length;
  if (!total) return "No broker is known yet.";
  const unsure = leftOut.filter(each => each.verdict === "unknown").length;
  const lasting = leftOut.filter(each => each.verdict === "unsafe"
    && each.once_allowed === "safe").length;
  const not = leftOut.length - unsure - lasting;
  const parts = [`${able} of ${counted(total, "broker")} ${
    isPast() ? "could be restarted then" : "may be restarted now"}`];
  if (lasting) parts.push(`${lasting} once what no restart can avoid is allowed`);
  if (not) parts.push(`${not} may not`);
  if (unsure) parts.push(`of ${unsure} it is unknown`);
  return `${listed(parts)}.`;
}

const Brokers = ({ ids }) => ids.map((id, i) => html`${i > 0 && ", "}<a
  href=${href([], { lose: ids })}>${id}</a>`);

/** The groups of consumers that read more remotely meanwhile, or cannot read. */
function hurtOf({ groups, groups_hurt: hurt }) {
  if (!hurt) return "";
  const names = groups.slice(0, NAMED).map(({ group }) => group);
  if (hurt > names.length) names.push(`${count(hurt - names.length)} more`);
  return `; hurts ${counted(hurt, "group")} of consumers: ${listed(names)}`;
}

/** The cost of a restart in words; what costs nothing is left out. */
export function costOf(cost) {
  const parts = [`${counted(cost.leaders_moved, "partition")} ${
    cost.leaders_moved === 1 ? "gets" : "get"} another leader`];
  if (cost.cold_leaders) {
    parts.push(`${count(cost.cold_leaders)} of them a cold one (${bytes(cost.remote_bytes)}${
      cost.remote_bytes_unknown ? " or more" : ""} are read remotely)`);
  }
  if (cost.at_min_isr) parts.push(`${count(cost.at_min_isr)} at min ISR`);
  if (cost.under_min_isr) parts.push(`${count(cost.under_min_isr)} under min ISR`);
  if (cost.offline) parts.push(`${count(cost.offline)} offline`);
  return parts.join(", ");
}

/** Reasons of the gate, with the first of what each is about. */
export function Reasons({ reasons, named = NAMED }) {
  return html`<ul class="reasons">${reasons.map(each => {
    const shown = each.names.slice(0, named);
    return html`<li key=${each.reason}>${each.meaning}: <span class="muted">${
      each.count > shown.length ? `${shown.join(", ")} and ${
        counted(each.count - shown.length, "other")}` : listed(shown)}</span>${
      each.remedy && html` <span class="muted">(to allow it: <code>${each.remedy}</code>)</span>`}</li>`;
  })}</ul>`;
}
