/** What is wrong with everything below it, or of when it is. */
import { ended } from "../format.js";
import { Time } from "../parts/time.js";
import { html } from "../ui.js";
import { choose } from "./moment.js";

/** Props: `pulse`, and `at`, the moment in the URL. While it is played, the last one stays. */
export function Banner({ pulse, at, isPlaying }) {
  const { summary, error } = pulse;
  if (error) {
    return html`<div class="banner bad" role="alert">
      <b>${error.message}</b>${" "}
      ${at && error.status ? html`<${Newest} />`
        : summary ? "What is shown is what it said last." : "Is it running?"}</div>`;
  }
  if (at) {
    const isThere = summary && (pulse.at === at || (isPlaying && pulse.at));
    return html`<div class="banner then" role="status">
      <span>${isThere ? html`<b>This is how it was at <${Time} ms=${Date.parse(summary.at)} />.</b>${" "}${
        lacking(summary)}` : html`<b>Asking how it was …</b>`}</span>
      <${Newest} /></div>`;
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

/** What is wrong with that moment, beside that it is of the past. */
function lacking({ not_live: past, why_not_up: why, complete, filled }) {
  const more = why.slice(past.length).replace(/^; /, "");
  return [
    filled && "It was not archived, and computed from observations.",
    !complete && "Not all of it was recorded.",
    more && ended(more),
  ].filter(Boolean).join(" ");
}

const Newest = () => html`<button type="button" onClick=${() => choose(null)}>Newest moment</button>`;
