/** When the volume of a log directory is full, what fills it, and what would help. */
import { Command } from "../parts/copy.js";
import { html } from "../ui.js";
import { besides, whenFull } from "./disk_words.js";

const PILLS = { page: "pill bad", warn: "pill warn" };

export function WhenFull({ disk }) {
  const pill = PILLS[disk.full.near] ?? "";
  return html`<span class="ahead muted"><span class=${pill}>${whenFull(disk)}</span>${
    besides(disk).map(text => html` <span class="and">${text}</span>`)}</span>
    ${disk.help.length > 0 && html`<${Helps} helps=${disk.help} />`}`;
}

function Helps({ helps }) {
  return html`<details class="ahead"><summary>What would help</summary>
    ${helps.map(({ text, command }) => html`<p>${text}</p><${Command} text=${command} asIs />`)}
  </details>`;
}
