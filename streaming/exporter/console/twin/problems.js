/** What the collector could not find out in its newest cycle, and why. */
import { url } from "../api.js";
import { count } from "../format.js";
import { Failed } from "../parts/failed.js";
import { Time } from "../parts/time.js";
import { Poll } from "../poll.js";
import { html } from "../ui.js";

export function Problems() {
  return html`<${Poll} url=${url("problems")}>
    ${({ answer, error }) => html`<${Failed} error=${error} />${answer && html`<${List} ...${answer} />`}`}<//>`;
}

function List({ problems, whole }) {
  if (problems === null) {
    return html`<p>Unknown: the collector is of an earlier version, which sends no list of them.</p>`;
  }
  if (!problems.length) return html`<p>None: the collector found out all that it asks for.</p>`;
  return html`<div class="wide" tabindex="0" role="region" aria-label="Problems of the collector">
    <table class="list problems"><thead><tr><th scope="col">source</th><th scope="col">broker</th>
      <th scope="col">error</th><th scope="col">reason</th><th scope="col">since</th></tr></thead>
    <tbody>${problems.map(each => html`<tr>
      <th scope="row">${each.source}</th><td>${each.broker < 0 ? "—" : each.broker}</td><td>${each.error}</td>
      <td class="reason">${each.text}</td><td><${Time} ms=${each.since_ms} /></td></tr>`)}</tbody></table></div>
    ${!whole && html`<p class="muted">There are more than these ${count(problems.length)}.</p>`}`;
}
