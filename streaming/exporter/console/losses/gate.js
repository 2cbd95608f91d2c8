/** The gate's verdict: may this broker be restarted now, and why not. */
import { url } from "../api.js";
import { ended } from "../format.js";
import { Command } from "../parts/copy.js";
import { Failed } from "../parts/failed.js";
import { Verdict } from "../parts/verdict.js";
import { Reasons } from "../plans/roll.js";
import { isPast } from "../past/when.js";
import { Poll } from "../poll.js";
import { html } from "../ui.js";

const NAMED = 4;

export function Gate({ broker }) {
  return html`<${Poll} url=${url(`brokers/${broker}/restart`)} every=${5_000}>
    ${({ answer, error }) => html`
      <h3>${isPast() ? "Could it be restarted then?" : "May it be restarted now?"}${" "}${answer && html`<${Verdict} verdict=${answer.verdict} then=${answer.once_allowed} />`}</h3>
      <${Failed} error=${error} />
      ${answer?.stale && html`<p class="bad">${ended(answer.stale)}</p>`}
      ${answer && html`<${Reasons} reasons=${answer.reasons} named=${NAMED} />`}`}<//>
    <${Command} text=${`kafka-twin gate restart --broker ${broker}`} />`;
}
