/** What remote log metadata say of a partition: its segments, and its leader epochs. */
import { ofPartition, url } from "../api.js";
import { bytes, count, counted } from "../format.js";
import { Failed, Waiting } from "../parts/failed.js";
import { Time } from "../parts/time.js";
import { Poll } from "../poll.js";
import { html } from "../ui.js";

const EVERY_MS = 10_000;
const SHOWN = 50;

export function Segments({ topic, number }) {
  return html`<${Poll} url=${url(ofPartition(topic, number, "/segments"))} every=${EVERY_MS}>
    ${state => html`<${Listed} ...${state} name="segment" known="segments_known"
      items=${state.answer?.segments} head=${["offsets", "size", "verdict", "state", "since"]}
      line=${each => [`${count(each.start_offset)} to ${count(each.end_offset)}`,
        bytes(each.log_bytes), each.verdict?.replaceAll("_", " ") ?? "unknown",
        each.state?.replaceAll("_", " ") ?? "unknown", html`<${Time} ms=${each.event_at_ms} />`]} />`}<//>`;
}

export function Epochs({ topic, number }) {
  return html`<${Poll} url=${url(ofPartition(topic, number, "/epochs"))} every=${EVERY_MS}>
    ${state => html`<${Listed} ...${state} name="epoch" known="epochs_known"
      items=${[...state.answer?.epochs ?? []].reverse()} head=${["leader epoch", "from offset"]}
      line=${each => [count(each.leader_epoch), count(each.start_offset)]} />`}<//>`;
}

function Listed({ answer, error, items, name, known, head, line }) {
  if (!answer) {
    return error ? html`<${Failed} error=${error} />` : html`<${Waiting} what="Asking" />`;
  }
  const total = answer[known];
  if (total === null) {
    return html`<p class="muted">Unknown: no remote log metadata were read of this partition.</p>`;
  }
  const shown = items.slice(0, SHOWN);
  return html`<${Failed} error=${error} />
    <p class="muted">${counted(total, name)}${
      total > shown.length ? `, of which ${shown.length} are shown` : ""}</p>
    ${shown.length > 0 && html`<div class="wide long" tabindex="0" role="region" aria-label=${`${name}s`}>
      <table class="list"><thead><tr>${head.map(each => html`<th scope="col">${each}</th>`)}</tr></thead>
      <tbody>${shown.map(each => html`<tr>${line(each).map(cell => html`<td>${cell}</td>`)}</tr>`)}
      </tbody></table></div>`}`;
}
