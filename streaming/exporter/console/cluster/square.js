/** A replica as a square: its colour, its hatch and its words say the same. */
import { html } from "../ui.js";
import { SQUARES } from "../words.js";

export function Square({ state, next, harmed, lost, title }) {
  const classes = ["sq", `sq-${state}`, next && "sq-next", harmed && "sq-harmed", lost && "sq-lost"];
  return html`<i class=${classes.filter(Boolean).join(" ")} title=${title ?? SQUARES[state]}></i>`;
}

/** What the squares mean. */
export function Legend({ shown, loses }) {
  return html`<ul class="legend" aria-label="Legend">
    ${Object.keys(SQUARES).filter(name => shown.has(name)).map(name => html`
      <li><${Square} state=${name} /> ${SQUARES[name]}</li>`)}
    ${loses && html`<li><${Square} state="warm" next /> would lead then</li>
      <li><${Square} state="leads" harmed lost /> nobody would lead then</li>`}
  </ul>`;
}
