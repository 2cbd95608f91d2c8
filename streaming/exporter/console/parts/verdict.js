/** The gate's verdict on a restart, the same words wherever it is shown. */
import { html } from "../ui.js";

const WORDS = {
  safe: ["restart is safe", "good"], unsafe: ["restart is unsafe", "bad"],
  unknown: ["unknown whether a restart is safe", "unknown"],
};

const ONCE_ALLOWED = ["safe once allowed", "warn"];

/** ``then`` is the verdict once what no restart can avoid is allowed. */
export function Verdict({ verdict, then }) {
  const [text, state] = verdict === "unsafe" && then === "safe" ? ONCE_ALLOWED : WORDS[verdict];
  return html`<span class=${`pill ${state}`}>${text}</span>`;
}
