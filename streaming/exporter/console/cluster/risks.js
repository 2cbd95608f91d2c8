/** The open risks of brokers and of the cluster as a whole. */
import { url } from "../api.js";
import { listed } from "../format.js";
import { WhatToDo } from "../parts/what_to_do.js";
import { html } from "../ui.js";
import { SEVERITIES, inWords } from "../words.js";

export function ClusterRisks({ risks }) {
  const open = Object.entries(risks).filter(([, risk]) => risk.open);
  if (!open.length) return null;
  return html`<section class="card" aria-labelledby="risks-title">
    <h2 id="risks-title">Risks of brokers and of the cluster</h2>
    <ul class="risks">${open.map(([name, { severity, meaning, brokers }]) => html`<li key=${name}>
      <span class=${`pill ${SEVERITIES[severity] ?? "info"}`}>${inWords(name)}</span>
      ${" "}${brokers ? `Broker${brokers.length > 1 ? "s" : ""} ${listed(brokers)}: ` : ""}${meaning}.
      <${WhatToDo} name=${name} at=${url("runbook")} /></li>`)}</ul></section>`;
}
