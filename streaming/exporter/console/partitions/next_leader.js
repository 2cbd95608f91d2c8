/** Who would lead next, how safe that is, and whether it holds enough local log. */
import { html } from "../ui.js";
import { COVERAGES, OUTCOMES } from "../words.js";

export function stateOf({ outcome, coverage }) {
  if (outcome === null) return "unknown";
  if (outcome === "elr") return "warn";
  if (outcome !== "clean") return "bad";
  return coverage === "cold" ? "warn" : coverage === "warm" ? "good" : "";
}

export function inWords({ leader, outcome, coverage }) {
  if (outcome === null) return "unknown";
  if (leader < 0) return OUTCOMES.none;
  return `${leader}, ${OUTCOMES[outcome]}, ${COVERAGES[coverage] ?? "unknown whether warm"}`;
}

export function NextLeader({ next }) {
  return html`<span class=${stateOf(next)}>${inWords(next)}</span>`;
}
