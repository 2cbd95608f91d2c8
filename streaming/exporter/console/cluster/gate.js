/** The gate's verdict: may this broker be restarted now, and why not. */
import { url } from "../api.js";
import { counted, ended, listed } from "../format.js";
import { Command } from "../parts/copy.js";
import { Failed } from "../parts/failed.js";
import { Poll } from "../poll.js";
import { html } from "../ui.js";

const NAMED = 4;
const WORDS = {
  safe: ["safe to restart", "good"], unsafe: ["not safe to restart", "bad"],
  unknown: ["unknown whether it is safe to restart", "unknown"],
};

export function Gate({ broker }) {
  return html`<${Poll} url=${url(`brokers/${broker}/restart`)} every=${5_000}>
    ${({ answer, error }) => html`
      <h3>May it be restarted now?${" "}${answer && html`<${Verdict} verdict=${answer.verdict} />`}</h3>
      <${Failed} error=${error} />
      ${answer?.stale && html`<p class="bad">${ended(answer.stale)}</p>`}
      ${answer && html`<ul class="reasons">${answer.reasons.map(each => html`
        <li><b>${each.meaning}</b>: ${named(each)}</li>`)}</ul>`}`}<//>
    <${Command} text=${`kafka-twin gate restart --broker ${broker}`} />`;
}

function Verdict({ verdict }) {
  const [text, state] = WORDS[verdict];
  return html`<span class=${`pill ${state}`}>${text}</span>`;
}

function named({ names, count }) {
  const shown = names.slice(0, NAMED);
  return count > shown.length ? `${shown.join(", ")} and ${counted(count - shown.length, "other")}`
    : listed(shown);
}
