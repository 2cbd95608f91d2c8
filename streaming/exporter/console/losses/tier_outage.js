/** What becomes of the cluster while remote storage takes and gives nothing. */
import { url } from "../api.js";
import { bytes, count, counted, duration } from "../format.js";
import { Command, quoted } from "../parts/copy.js";
import { Failed, Waiting } from "../parts/failed.js";
import { Poll } from "../poll.js";
import { groupHref } from "../router.js";
import { Component, html } from "../ui.js";

const LASTS = [["1h", "an hour"], ["6h", "6 hours"], ["24h", "a day"], ["72h", "three days"]];
const HORIZON = "14 d";
const NAMED = 5;

/** While what is chosen is lost: asked once it is opened. */
export class TierOutageMeanwhile extends Component {
  state = { open: false };

  render({ title, lost }, { open }) {
    return html`<details class="grid" onToggle=${event => this.setState({ open: event.currentTarget.open })}>
      <summary>${title}</summary>${open && html`<${TierOutage} lost=${lost} />`}</details>`;
  }
}

/** Without a loss of brokers or racks, or with one meanwhile. */
export class TierOutage extends Component {
  state = { lasts: "6h" };

  render({ lost = { broker: [], rack: [] } }, { lasts }) {
    const options = [...lost.broker.map(id => `--broker ${id}`),
      ...lost.rack.map(rack => `--rack ${quoted(rack)}`)];
    return html`<form class="filters" onSubmit=${event => event.preventDefault()}><label>for
        <select value=${lasts} onChange=${event => this.setState({ lasts: event.target.value })}>
          ${LASTS.map(([value, text]) => html`<option value=${value}>${text}</option>`)}</select></label></form>
      <${Poll} key=${lasts} url=${url("whatif/tier-outage", { for: lasts, ...lost })}>${({ answer, error }) => html`
        <${Failed} error=${error} />
        ${answer ? html`<${Outage} answer=${answer} />` : !error && html`<${Waiting} what="Asking" />`}`}<//>
      <${Command} text=${["kafka-twin whatif tier-outage", `--for ${lasts}`, ...options].join(" ")} />`;
  }
}

function Outage({ answer }) {
  const { brokers, help, tiered_partitions: tiered, unknown_partitions: unknown } = answer;
  if (!tiered) {
    return html`<p>No partition is known to be tiered: remote storage is not missed.</p>
      <${Unjudged} unknown=${unknown} />`;
  }
  return html`<p class=${answer.survived === "full" ? "warn" : ""}>${firstDisk(answer)}</p>
    <${Unreadable} answer=${answer} />
    <${Unjudged} unknown=${unknown} />
    <div class="wide" tabindex="0" role="region" aria-label="Brokers while remote storage is away"><table class="numbers"><thead><tr><th scope="col">broker</th>
        <th scope="col">a disk is full in</th><th scope="col">its disks lack</th>
        <th scope="col">uploaded, still kept</th><th scope="col">to upload</th>
        <th scope="col">caught up in</th></tr></thead>
      <tbody>${brokers.map(each => html`<${Broker} key=${each.broker} row=${each} />`)}</tbody></table></div>
    ${help.length > 0 && html`<h3>What would buy time</h3>
      ${help.map(text => html`<${Command} text=${text} asIs />`)}`}`;
}

function Broker({ row }) {
  const full = row.forecast === "full" ? duration(row.full_after_s) : row.forecast.replaceAll("_", " ");
  return html`<tr><th scope="row">${row.broker}</th>
    <td class=${row.forecast === "full" ? "warn" : "muted"}>${full}</td>
    <td class=${row.missing_bytes ? "bad" : "muted"}>${bytes(row.missing_bytes)}</td>
    <td>${bytes(row.uploaded_bytes)}</td><td>${bytes(row.written_bytes_per_s)}/s</td>
    <td class=${row.catch_up === "never" ? "bad" : ""}>${
      caughtUp(row)}</td></tr>`;
}

const RATES = { given: "as given", measured: "as measured", quota: "its quota" };

function caughtUp({ catch_up: how, catch_up_after_s: after, more_bytes_per_s: more, upload_rate: rate }) {
  if (how !== "after") return how.replaceAll("_", " ");
  return html`${duration(after)} <span class="muted">(${bytes(more)}/s more, ${RATES[rate]})</span>`;
}

function firstDisk({ survived, brokers, half_full_s: half }) {
  if (survived === "not_in_sight") return `No disk is full within ${HORIZON}.`;
  if (survived === "unknown") return "When disks are full is unknown.";
  const [{ broker, full_after_s: first }] = brokers;
  const more = half !== null && half > first
    ? `; half of the brokers have one in ${duration(half)}` : "";
  return `Broker ${broker} has a full disk in ${duration(first)}${more}.`;
}

/** "2 000 records (1.9 MiB) of 3 partitions" */
const inWords = ({ records, bytes: size, partitions }) =>
  `${counted(records, "record")} (${bytes(size)}) of ${counted(partitions, "partition")}`;

function Unreadable({ answer }) {
  const { on_no_disk: away, after_leader_change: later, groups, groups_total: total } = answer;
  const now = groups.filter(each => each.now.partitions || each.after_loss.partitions);
  return html`${away.partitions > 0 && html`<p>Nobody can read ${inWords(away)}: no disk has them.</p>`}
    ${now.length > 0 && html`<p class="bad">${now.slice(0, NAMED).map((each, i) => html`${i > 0 && ", "}<a
      href=${groupHref(each.group)}>${each.group}</a>`)} ${now.length > NAMED && `and ${count(total - NAMED)} more `}${
      now.length === 1 ? "reads" : "read"} from there now.</p>`}
    ${later.partitions > 0 && html`<p>If leaders change, ${inWords(later)} are out of reach as well.</p>`}
    ${answer.no_new_replica > 0 && html`<p>No replica can be added to ${
      counted(answer.no_new_replica, "partition")}${answer.cannot_start > 0
      && html`; <span class="bad">${counted(answer.cannot_start, "follower")} cannot start</span>`}.</p>`}`;
}

function Unjudged({ unknown }) {
  return unknown > 0 && html`<p class="muted">Of ${counted(unknown, "partition")} nobody knows whether it
    is tiered, or what is uploaded.</p>`;
}
