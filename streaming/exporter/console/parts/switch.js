/** A choice between few things, each with a URL of its own. */
import { html } from "../ui.js";

/** Props: `label`, `options` as [URL, text, whether it is chosen]. */
export function Switch({ label, options }) {
  return html`<span class="switch" role="group" aria-label=${label}>${options.map(([to, text, isOn]) => html`
    <a href=${to} role="button" aria-pressed=${isOn}>${text}</a>`)}</span>`;
}
