/** Plans that give replicas another order or place: what they would change, and the commands. */
import { url } from "../api.js";
import { counted } from "../format.js";
import { withCode } from "../parts/code.js";
import { Command } from "../parts/copy.js";
import { Failed, Waiting } from "../parts/failed.js";
import { Switch } from "../parts/switch.js";
import { isPast } from "../past/when.js";
import { Poll } from "../poll.js";
import { go, partitionHref } from "../router.js";
import { html } from "../ui.js";

const EVERY_MS = 15_000;
const SHOWN = 20;

export function Order({ preferred, to }) {
  const command = `kafka-twin plan order${preferred ? " --preferred" : ""}`;
  return html`<p class="muted">Kafka elects the first replica in sync by the order of the assignment. With
      warm replicas before cold ones it elects as KIP-1303 would. The replicas stay the same, so no data
      moves.</p>
    <p class="controls"><${Switch} label="Preferred leaders" options=${[
      [to(false), "preferred leaders stay", !preferred],
      [to(true), "they move as well", preferred]]} /></p>
    <${Planned} asked=${url("plans/order", { preferred: preferred ? "true" : "", limit: SHOWN })}
      commands=${[command, `${command} --out warm-first`, `${command} --apply`]} />`;
}

export function Demote({ broker, brokers, to }) {
  const command = `kafka-twin plan demote --broker ${broker}`;
  return html`<p class="muted">Before a restart, or while a broker is a slow leader: its partitions get warm
      leaders in sync, spread evenly over brokers and racks.</p>
    <form class="filters" onSubmit=${event => event.preventDefault()}><label>broker
      <select value=${broker} onChange=${event => go(to(event.target.value))}>
        <option value="">choose one</option>
        ${brokers.map(id => html`<option value=${String(id)}>${id}</option>`)}</select></label></form>
    ${broker && html`<${Planned} key=${broker} asked=${url("plans/demote", { broker, limit: SHOWN })}
      commands=${[command, `${command} --out demoted`, `${command} --apply`]} />`}`;
}

export function Place() {
  const command = "kafka-twin plan place";
  return html`<p class="muted">The fewest swaps of two replicas after which these losses harm fewer partitions. Data
      move, so Kafka's own tools do it.</p>
    <${Planned} asked=${url("plans/place", { limit: SHOWN })} commands=${[command, `${command} --out placed`]} />`;
}

export function Restore() {
  return html`<p>Each plan that is applied keeps a journal, and writes its place when it ends. This brings
      back the orders that it changed, unless somebody has changed them since:</p>
    <${Command} text="kafka-twin plan restore .kafka-twin/plans/PLAN/journal.jsonl" />`;
}

/** The answer of a plan, and the commands that print it, write files, and, if it may be applied, apply it. */
function Planned({ asked, commands: [print, write, apply] }) {
  return html`<${Poll} url=${asked} every=${EVERY_MS}>${({ answer, error }) => html`
    <${Failed} error=${error} />
    ${!answer ? !error && html`<${Waiting} what="Planning" />` : html`
      <ul class="lines">${answer.lines.map(line => html`<li>${withCode(line)}</li>`)}</ul>
      <${Changes} answer=${answer} />
      ${answer.total > 0 && html`<div class="commands">
        <div><h3>Print it</h3><${Command} text=${print} /></div>
        ${!isPast() && html`<div><h3>Write files for Kafka's own tools</h3><${Command} text=${write} /></div>
          ${apply && html`<div><h3>Do it</h3><${Command} text=${apply} /></div>`}`}</div>`}`}`}<//>`;
}

function Changes({ answer: { total, header, rows, changes } }) {
  if (!total) return null;
  return html`<details open=${total <= SHOWN}><summary>${counted(total, "change")}${
      total > rows.length ? `, the first ${rows.length} of them` : ""}</summary>
    <div class="wide" tabindex="0" role="region" aria-label="Changes"><table class="list">
    <thead><tr>${header.map(name => html`<th scope="col">${name}</th>`)}</tr></thead>
    <tbody>${rows.map(([, ...cells], i) => html`<tr key=${`${changes[i].topic}/${changes[i].partition}`}>
      <th scope="row"><a href=${partitionHref(changes[i].topic, changes[i].partition)}>${
        changes[i].topic}-${changes[i].partition}</a></th>
      ${cells.map(cell => html`<td>${cell}</td>`)}</tr>`)}</tbody></table></div></details>`;
}
