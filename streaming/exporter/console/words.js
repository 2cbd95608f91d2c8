/** What the names of the API are called on the page, in Kafka's terms. */

/** Squares of the matrix, in the order of the legend. */
export const SQUARES = {
  leads: "leads",
  leads_cold: "leads, cold",
  warm: "in sync, warm",
  cold: "in sync, cold: reads from remote storage",
  assumed: "in sync, taken as warm: a number is unknown",
  not_judged: "in sync, not judged: no threshold",
  elr: "eligible leader replica (ELR)",
  out_of_sync: "out of sync",
  joining: "joining",
  offline: "offline",
  unknown: "unknown",
};

/** The worst first: what a cell shows if it has room for little. */
export const WORST_FIRST = [
  "offline", "out_of_sync", "elr", "unknown", "leads_cold", "cold", "joining", "leads",
  "assumed", "not_judged", "warm",
];

export const OUTCOMES = {
  clean: "in sync", elr: "eligible (ELR)", last_known: "last known leader", unclean: "unclean",
  none: "nobody",
};

export const COVERAGES = {
  warm: "warm", cold: "cold", assumed: "taken as warm", not_judged: "not judged",
};

/** Whether a partition can do without one of its replicas. */
export const REDUNDANCIES = {
  spare: "a replica to spare", no_spare: "no replica to spare", one_replica: "one replica",
  one_replica_accepted: "one replica, accepted", not_judged: "not judged: diskless",
};

export const SEVERITIES = { page: "bad", warn: "warn", info: "info" };

/** A name of the API in words, "at_min_isr" as "at min ISR": risks, and kinds of events. */
export const inWords = name => name.replaceAll("_", " ").replace(/\b(isr|elr)\b/g,
  word => word.toUpperCase());
