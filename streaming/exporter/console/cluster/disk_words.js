/** In words: when the volume of a log directory is full, and what fills it. */
import { bytes, count, counted, duration } from "../format.js";

const NAMED = 3; // topics that fill it
const HORIZON = "14 d"; // nothing is said of what is farther away

const isFull = ({ forecast }) => forecast === "full";

/** Until then, from when the directory was observed: so it is right at past moments as well. */
const until = ({ at_ms: at }, observed) => duration(Math.max(at - observed, 0) / 1_000);

/** "in 5 h to 9 h", for two times in the same words once. */
function span(earliest, latest, observed) {
  const [first, last] = [until(earliest, observed), until(latest, observed)];
  return first === last ? `in ${first}` : `in ${first} to ${last}`;
}

export function whenFull({ full: { earliest, latest }, observed_at_ms: observed }) {
  if (isFull(earliest) && earliest.at_ms <= observed) return "full now";
  if (isFull(earliest) && isFull(latest)) return `full ${span(earliest, latest, observed)}`;
  if (isFull(earliest)) return `full in ${until(earliest, observed)} at the earliest`;
  return earliest.forecast === "unknown" ? "full: unknown" : "full: not in sight";
}

/** What the straight line says, where it is not what the model says. */
function byLine({ full: { line, differs }, observed_at_ms: observed }) {
  if (!differs) return null;
  const then = isFull(line) ? `full in ${until(line, observed)}` : "not in sight";
  return `as in the last hour: ${then}, which is not what logs explain`;
}

function outage({ full: { away }, observed_at_ms: observed }) {
  if (!away || away.forecast === "unknown") return null;
  const time = isFull(away) ? until(away, observed) : `more than ${HORIZON}`;
  return `remote storage may be away for ${time}`;
}

function filledBy({ full, filling, filling_left_out: more }) {
  if (!filling.length || !(isFull(full.earliest) || full.differs)) return null;
  const named = filling.slice(0, NAMED)
    .map(({ topic, grows_bytes_per_s: grows, written_bytes_per_s: written }) =>
      `${topic} (${bytes(grows > 0 ? grows : written)}/s${grows > 0 ? "" : " written"})`);
  const others = filling.length - named.length + more;
  return `filled by ${named.join(", ")}${others ? ` and ${count(others)} more` : ""}`;
}

function notJudged({ full: { unjudged_replicas: replicas, earliest } }) {
  if (!replicas || earliest.forecast === "unknown") return null;
  return `${counted(replicas, "replica")} not judged`;
}

/** All that is beside when it is full. */
export const besides = disk =>
  [byLine(disk), notJudged(disk), outage(disk), filledBy(disk)].filter(each => each);
