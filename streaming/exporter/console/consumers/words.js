/** What is known of a group of consumers, in words: where it reads, and how long it has. */
import { bytes, count, counted, duration } from "../format.js";
import { nowOrThen } from "../past/when.js";

/** Where a group reads: what it is called, and how bad it is; the worst first. */
const PLACES = {
  nobody: ["without a leader", "bad"],
  ahead: ["beyond the log end", "bad"],
  nowhere: ["deleted already", "bad"],
  unknown: ["unknown", "unknown"],
  remote: ["from remote storage", "warn"],
  disk: ["from disk", ""],
};

/** How bad it is to read there; nothing is known of null. */
export const placeState = name => PLACES[name ?? "unknown"][1];

export const placeWords = name => PLACES[name ?? "unknown"][0];

/** [[text, state], …] of the places of a group's partitions. */
export function placesOf({ reads_from: counts }) {
  const held = Object.keys(PLACES).filter(name => counts[name]);
  return held.map(name => [`${count(counts[name])} ${PLACES[name][0]}`, PLACES[name][1]]);
}

const LOSES_SOON_S = 3_600; // as the risks consumer_loses_records and consumer_falls_off_local_log
const LEAVES_SOON_S = 900;

/** [text, state] of a time that is left; undefined is unknown, null is never. */
function left(seconds, soon, state) {
  if (seconds === undefined) return ["unknown", "unknown"];
  if (seconds === null) return ["never", "muted"];
  if (seconds === 0) return [nowOrThen(), state];
  return [`in ${duration(seconds)}`, seconds <= soon ? state : ""];
}

export const untilLoss = seconds => left(seconds, LOSES_SOON_S, "bad");
export const untilRemote = seconds => left(seconds, LEAVES_SOON_S, "warn");

/** A time of a partition, where "never" is a field of its own. */
export const orNever = (seconds, never) => (never ? null : seconds ?? undefined);

/** [text, state] of what a group would read by that rule once its leaders are lost. */
export function readsThen({ if_leader_lost_unread: unread, if_leader_lost_remote_bytes: then }, rule) {
  const [text, state] = remotely(then?.[rule]);
  if (!unread) return [text, state];
  const size = then?.[rule];
  return [`${counted(unread, "partition")} not read${size > 0 ? `, ${text}` : ""}`, "bad"];
}

/** [text, state] of bytes that would be read from remote storage. */
export function remotely(size) {
  if (size === undefined || size === null) return ["unknown", "unknown"];
  return size > 0 ? [bytes(size), "warn"] : ["nothing", "muted"];
}
