/** The open risks of a partition: the sentence of each, and where to read what to do. */
import { html } from "../ui.js";
import { SEVERITIES, inWords } from "../words.js";

export function Risks({ names, risks }) {
  if (!names.length) return html`<p>None is open.</p>`;
  return html`<ul class="risks">${names.map(name => html`<li key=${name}>
    <span class=${`pill ${SEVERITIES[risks[name]?.severity] ?? "info"}`}>${inWords(name)}</span>
    ${" "}${risks[name]?.meaning ?? ""}. What to do: <code>docs/runbook.md#${name}</code></li>`)}</ul>`;
}
