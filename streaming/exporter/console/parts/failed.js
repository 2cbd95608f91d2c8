/** A part of the page for which there is no answer: why. */
import { html } from "../ui.js";

export function Failed({ error }) {
  return error && html`<p class="bad" role="status">${error.message}</p>`;
}

export function Waiting({ what }) {
  return html`<p class="muted" role="status">${what} …</p>`;
}
