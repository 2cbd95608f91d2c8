/** A choice of thresholds where none is set: how many replicas each would call cold, as bars. */
import { url } from "../api.js";
import { count, milliseconds } from "../format.js";
import { Failed, Waiting } from "../parts/failed.js";
import { Poll } from "../poll.js";
import { Component, html } from "../ui.js";

/** A tenth to four times of each is shown. */
const AROUND = { "10m": "minutes", "4h": "hours", "3d": "days" };

export class Grid extends Component {
  state = { open: false, around: "4h" };

  render({ replicas }, { open, around }) {
    return html`<details class="grid" onToggle=${event => this.setState({ open: event.currentTarget.open })}>
      <summary>What would a threshold call cold?</summary>
      ${open && html`
        <p class="controls"><span class="switch" role="group" aria-label="Spans of local log">
          ${Object.entries(AROUND).map(([ms, name]) => html`<button type="button"
            aria-pressed=${ms === around} onClick=${() => this.setState({ around: ms })}>${name}</button>`)}</span></p>
        <${Poll} url=${url("whatif/threshold", { ms: around, grid: "true" })} every=${0}>
          ${({ answer, error }) => (answer
            ? html`<${Bars} thresholds=${answer.thresholds} replicas=${replicas} />`
            : error ? html`<${Failed} error=${error} />` : html`<${Waiting} what="Asking" />`)}<//>`}
    </details>`;
  }
}

function Bars({ thresholds, replicas }) {
  if (!thresholds.some(each => each.cold_replicas || each.unreachable_partitions)) {
    return html`<p>None of them calls a replica cold. Only a replica of a tiered partition can be cold, if
      its own disk holds less than the threshold.</p>`;
  }
  return html`<div class="wide" tabindex="0" role="region" aria-label="Thresholds"><table class="numbers bars"><thead><tr><th scope="col">local log spans at least</th>
      <th scope="col" class="text">cold replicas</th><th scope="col">cold leaders</th>
      <th scope="col">partitions that cannot reach it</th></tr></thead>
    <tbody>${thresholds.map(each => html`<tr key=${each.local_log_ms}>
      <th scope="row">${milliseconds(each.local_log_ms)}</th>
      <td class="text"><span class="bar"><i style=${{
        width: `${(100 * each.cold_replicas) / Math.max(replicas, 1)}%` }}></i></span>
        ${count(each.cold_replicas)} of ${count(replicas)}</td>
      <td>${count(each.cold_leaders)}</td><td>${count(each.unreachable_partitions)}</td></tr>`)}</tbody></table></div>
    <p class="muted">A threshold that few replicas miss now tells of those that fall behind. A partition cannot
      reach one that is longer than its local retention.</p>`;
}
