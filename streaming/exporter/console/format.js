/** Numbers, times and sizes as a person reads them. Null is unknown, and says so. */

export const UNKNOWN = "unknown";

const isUnknown = value => value === null || value === undefined;

const NUMBERS = new Intl.NumberFormat("en"); // made once: toLocaleString makes one each time

export const count = value => (isUnknown(value) ? UNKNOWN : NUMBERS.format(value));

/** "1 partition", "2 partitions". */
export const counted = (number, one, many = `${one}s`) =>
  `${count(number)} ${number === 1 ? one : many}`;

export function bytes(value) {
  if (isUnknown(value)) return UNKNOWN;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value.toFixed(unit && value < 10 ? 1 : 0)} ${units[unit]}`;
}

/** A duration of seconds with its two largest units. */
export function duration(seconds) {
  if (isUnknown(seconds)) return UNKNOWN;
  if (seconds < 10) return `${Math.max(seconds, 0).toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

export const milliseconds = value => (isUnknown(value) ? UNKNOWN : duration(value / 1_000));

/** A moment, in the reader's time zone. */
export const moment = ms => (isUnknown(ms) ? UNKNOWN : new Date(ms).toLocaleString());

/** "1, 2 and 5" */
export function listed(items, word = "and") {
  if (items.length < 2) return items.join("");
  return `${items.slice(0, -1).join(", ")} ${word} ${items[items.length - 1]}`;
}

/** With a full stop, unless it ends as a sentence does. */
export const ended = text => (/[.?!]$/.test(text) ? text : `${text}.`);

/** A broker id, or that there is none. */
export function broker(id) {
  if (isUnknown(id)) return UNKNOWN;
  return id < 0 ? "nobody" : String(id);
}
