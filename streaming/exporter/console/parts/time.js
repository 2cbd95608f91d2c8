/** A time in the reader's time zone; its title has it in UTC, as in the logs of brokers. */
import { UNKNOWN, moment } from "../format.js";
import { html } from "../ui.js";

export function Time({ ms }) {
  if (ms === null || ms === undefined) return UNKNOWN;
  const utc = new Date(ms).toISOString();
  return html`<time datetime=${utc} title=${utc}>${moment(ms)}</time>`;
}
