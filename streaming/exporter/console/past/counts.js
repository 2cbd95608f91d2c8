/** Changes in words, and how grave they are. */
import { counted, listed } from "../format.js";

/** "2 leaders, 1 risk opened (1 page)" */
export function inWords(counts) {
  if (!counts?.total) return "no change";
  const { page } = counts.opened_by_severity;
  const parts = [
    [counts.risk_opened,
      `${counted(counts.risk_opened, "risk")} opened${page ? `, ${page} of them pages` : ""}`],
    [counts.leader, counted(counts.leader, "leader change")],
    [counts.isr, counted(counts.isr, "ISR change")],
    [counts.broker, counted(counts.broker, "broker change")],
    [counts.risk_closed, `${counted(counts.risk_closed, "risk")} closed`],
    [counts.other, counted(counts.other, "other change")],
  ];
  return listed(parts.filter(([number]) => number).map(([, text]) => text));
}

/** The colours of a stretch from the bottom: [class, changes]. */
export function layersOf({ total, broker, opened_by_severity: { page, warn } }) {
  const layers = [
    ["page", page], ["of-broker", broker], ["warn", warn], ["calm", total - page - warn - broker],
  ];
  return layers.filter(([, number]) => number);
}
