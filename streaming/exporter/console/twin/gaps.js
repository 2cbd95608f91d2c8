/** What the twin does not know, from the counts that it keeps of that: {what, why}. */
import { count, counted, listed } from "../format.js";

const all = values => Object.values(values ?? {}).reduce((sum, each) => sum + each, 0);

const COUNTED = [
  ["replicas_coverage_not_judged", "replica", "neither warm nor cold: no threshold is set for their topics"],
  ["replicas_coverage_assumed", "replica", "taken as warm: a number is unknown, which KIP-1303 treats as enough"],
  ["replicas_local_log_unknown", "replica", "local log of unknown size, which all totals of bytes leave out"],
  ["replicas_timestamp_suspect", "replica", "timestamps older than the log can be, so its span proves nothing"],
  ["partitions_cold_read_unknown", "partition",
    "unknown whether consumers are sent to a cold replica: see replica.selector.class of their leaders"],
];

export function gapsOf(summary, brokers) {
  const gaps = [];
  const silent = brokers.filter(each => !each.answered && each.fenced !== true
    && each.listed !== false);
  if (silent.length) {
    gaps.push({ what: `broker ${listed(silent.map(each => each.broker))} ${
      silent.length > 1 ? "do" : "does"} not answer`, why: "what is shown of it is its last answer" });
  }
  for (const [name, one, why] of COUNTED) {
    if (summary[name]) gaps.push({ what: counted(summary[name], one), why });
  }
  if (summary.problems) {
    gaps.push({ what: counted(summary.problems, "problem"), why: "of the collector, listed below" });
  } else if (summary.problems === null) {
    gaps.push({ what: "problems of the collector",
      why: "it sends no list of them: it is of an earlier version" });
  }
  if (summary.observations_refused) {
    gaps.push({ what: counted(summary.observations_refused, "observation"),
      why: "could not be used; the log of the query says why" });
  }
  const skipped = all(summary.frames_skipped);
  if (skipped) {
    gaps.push({ what: `${count(skipped)} frames`, why: `of kinds that this version does not know: ${
      listed(Object.keys(summary.frames_skipped))}` });
  }
  const without = brokers.filter(each => !each.rack).length;
  if (without && without < brokers.length) {
    gaps.push({ what: counted(without, "broker"), why: "without a rack" });
  }
  return gaps;
}
