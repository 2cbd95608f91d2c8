/** Whether what is shown is over, for texts and commands that else are about now. */
import { chosen, textOf } from "./moment.js";

let newest = null; // the end of the past, if the exporter shows no present

/** Of the newest summary: a capsule is of the past also where no moment is chosen. */
export function noteSummary(summary) {
  newest = summary?.not_live && summary.past ? textOf(summary.past.end_ms) : null;
}

export const isPast = () => Boolean(chosen() || newest);

/** The moment that a command must ask about; empty for now. */
export const askedAbout = () => chosen() || newest || "";

export const nowOrThen = () => (isPast() ? "then" : "now");
