/** A cluster's row in words: each is [text, state, what more there is to say]. */
import { UNKNOWN, count, counted, duration } from "../format.js";
import { inWords } from "../words.js";

/** Severities as the page shows them, the worst first, with the state that has their colour. */
export const STATES = {
  critical: "bad", unknown: "unknown", warning: "warn", info: "info", ok: "good",
};

const NOT_KNOWN = [UNKNOWN, "unknown", ""];

/** Open risks of one severity: how many, and which. */
export function risksOf({ risks }, severity) {
  const open = Object.entries(risks[severity]);
  return [open.length, open.map(([name, number]) => `${inWords(name)} (${count(number)})`).join(", ")];
}

/** The worst broker that cannot be lost, and what would be. */
export function brokerLoss({ can_lose: canLose, loss }) {
  if (canLose === null) return NOT_KNOWN;
  if (canLose) return ["any can go", "muted", "Any one broker can be lost"];
  const { broker, offline, unclean, harmed, cannot_be_lost: others } = loss;
  const would = offline ? `${count(offline)} offline` : unclean ? `${count(unclean)} unclean`
    : `${count(harmed)} under min ISR`;
  return [`${broker}: ${would}`, "warn",
    `Losing broker ${broker} harms ${counted(harmed, "partition")}; ${
      counted(others, "broker")} cannot be lost`];
}

/** The worst rack, and what its loss would do. */
export function rackLoss({ can_lose: canLose, rack_loss: loss }) {
  if (canLose === null) return NOT_KNOWN;
  if (loss === null) return ["no racks", "muted", "Fewer than two racks are known"];
  const { rack, offline, under_min_isr: under, elects } = loss;
  const more = `Losing rack ${rack} takes ${counted(offline, "partition")} offline and leaves ${
    counted(under, "partition")} under min ISR`;
  if (elects === false) return [`${rack}: no quorum`, "warn", `${more}; no controller would elect`];
  if (offline) return [`${rack}: ${count(offline)} offline`, "", more];
  return ["any can go", "muted", more];
}

const FORECASTS = {
  not_in_sight: ["> 14 d", "muted", "Not in sight: not full within 14 days"],
  nothing_tiered: ["not tiered", "muted", "No partition is known to be tiered"],
  unknown: NOT_KNOWN,
};

/** Until then by the exporter's clock, which need not be the reader's. */
function horizon({ observed_at_ms: observedMs, age_ms: ageMs }, atMs, forecast, state, what) {
  if (atMs === null) return FORECASTS[forecast] ?? NOT_KNOWN;
  const leftS = Math.max(atMs - observedMs - ageMs, 0) / 1_000;
  return [duration(leftS), state, `${what} at ${new Date(atMs).toISOString()}`];
}

/** Until the first disk is full, as things are. */
export function diskFull(row) {
  const { disk_full_at_ms: atMs, disk_forecast: forecast, risks } = row;
  const state = risks?.critical.disk_full_soon ? "bad" : risks?.warning.disk_fills ? "warn" : "";
  return horizon(row, atMs, forecast, state, "Full at the earliest");
}

/** The same if remote storage is away from now on. */
export const tierFull = row => horizon(
  row, row.tier_full_at_ms, row.tier_forecast, "", "Without remote storage full at the earliest");

/** How old what is known of it is. */
export function freshness({ age_ms: ageMs, up }) {
  if (ageMs === null) return ["never", "unknown", "Nothing was observed yet"];
  const seconds = Math.round(ageMs / 1_000);
  const text = seconds < 10 ? `${seconds} s` : duration(seconds);
  return [text, up ? "muted" : "bad", "Since the newest observation"];
}

/** "5 brokers, 431 partitions" */
export const sizeOf = ({ brokers, partitions }) => (brokers === null ? "Its size is unknown"
  : `${counted(brokers, "broker")}, ${counted(partitions, "partition")}`);

/** The Kafka of its brokers; while it is upgraded, from the lowest to the highest. */
export function kafkaVersion({ kafka_version: version }) {
  if (version === null) return NOT_KNOWN;
  const more = version.includes("+") ? "The newest that the twin tells apart, or a later one" : "";
  return [version, version.includes(" ") ? "" : "muted", more];
}

/** Leader changes that were judged, and how many had been predicted wrong. */
export function trackRecord({ track }) {
  if (track === null) return NOT_KNOWN;
  const { right, wrong, not_judged: open } = track;
  const more = `${counted(right + wrong, "leader change")} judged, ${count(open)} not judged`;
  if (!right && !wrong) return ["none yet", "muted", more];
  return wrong ? [`${count(wrong)} of ${count(right + wrong)} wrong`, "bad", more]
    : [`${count(right)} right`, "muted", more];
}

/** The sentence, in which times of today are hours and minutes. */
export function withShortTimes({ sentence, observed_at_ms: observedMs, age_ms: ageMs }) {
  if (observedMs === null) return sentence;
  const today = new Date(observedMs + ageMs).toISOString().slice(0, 10);
  return sentence.replaceAll(new RegExp(`${today} (\\d\\d:\\d\\d):\\d\\d UTC`, "g"), "$1 UTC");
}
