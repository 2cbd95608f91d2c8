/** Beside the bar: play, how fast, and the report of what happened. */
import { moment } from "../format.js";
import { html } from "../ui.js";
import { textOf } from "./moment.js";
import { PLAYER, SPEEDS } from "./player.js";

const AROUND_MS = 20 * 60_000; // before and after the moment that is shown, if the past is long
const WHOLE_MS = 3_600_000; // a past that is not longer than that is reported as a whole

/** The span that a report is about: it computes every cycle of it again. */
export function reported({ begin_ms: begin, end_ms: end }, atMs) {
  if (end - begin <= WHOLE_MS) return [begin, end];
  return [Math.max(begin, atMs - AROUND_MS), Math.min(end, atMs + AROUND_MS)];
}

export function Controls({ span, atMs }) {
  const [from, to] = reported(span, atMs);
  const query = new URLSearchParams({ from: textOf(from), to: textOf(to), format: "html" });
  const { isPlaying, speed } = PLAYER;
  return html`<p class="controls">
    <button type="button" onClick=${() => PLAYER.toggle()} disabled=${span.begin_ms === span.end_ms}
      title="Space, on the bar">${isPlaying ? "Pause" : "Play"}</button>
    <label>speed <select value=${String(speed)}
      onChange=${event => PLAYER.choose(Number(event.target.value))}>
      ${SPEEDS.map(each => html`<option value=${String(each)} selected=${each === speed}>${each} ×</option>`)}
    </select></label>
    <a class="report" href=${`api/v1/report?${query}`} target="_blank" rel="noopener"
      title=${`What happened from ${moment(from)} to ${moment(to)}`}>Report</a></p>`;
}
