/** The open risks of a partition: the meaning of each, and its section of the runbook. */
import { ofPartition, url } from "../api.js";
import { WhatToDo } from "../parts/what_to_do.js";
import { html } from "../ui.js";
import { SEVERITIES, inWords } from "../words.js";

export function Risks({ topic, number, names, risks }) {
  if (!names.length) return html`<p>None is open.</p>`;
  return html`<ul class="risks">${names.map(name => html`<li key=${name}>
    <span class=${`pill ${SEVERITIES[risks[name]?.severity] ?? "info"}`}>${inWords(name)}</span>
    ${" "}${risks[name]?.meaning ?? ""}.
    <${WhatToDo} name=${name} at=${url(ofPartition(topic, number, "/runbook"))} /></li>`)}</ul>`;
}
