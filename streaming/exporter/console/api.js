/** Questions to the exporter that serves this page. Nothing else is ever asked. */

import { chosen } from "./past/moment.js";

const TIMEOUT_MS = 15_000;

/** What is about the past as a whole, whichever moment is shown. */
const OF_NO_MOMENT = ["diff", "events", "history/changes", "history/events", "report"];

/** The exporter answered, and refuses: its reason in one line. */
export class Refused extends Error {
  constructor(why, status) {
    super(why);
    this.status = status;
  }
}

/** Nobody answers. */
export class Unreachable extends Error {}

/**
 * The URL of a path below /api/v1, about the moment that is shown; relative, so that a proxy may put
 * the console in a folder.
 */
export function url(path, parameters = {}) {
  const query = new URLSearchParams();
  const at = OF_NO_MOMENT.includes(path) ? "" : chosen();
  for (const [name, value] of Object.entries({ ...parameters, at })) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null && each !== "") query.append(name, each);
    }
  }
  const text = query.toString();
  return `api/v1/${path}${text && `?${text}`}`;
}

/** The path of a partition, or of what is below it. */
export function ofPartition(topic, number, below = "") {
  return `partitions/${encodeURIComponent(topic)}/${number}${below}`;
}

let asked = 0;

/** Whether an answer is awaited. */
export const isAsking = () => asked > 0;

/** The JSON at that URL. */
export async function ask(address, signal) {
  asked += 1;
  try {
    return await answerOf(address, signal);
  } finally {
    asked -= 1;
  }
}

async function answerOf(address, signal) {
  const limit = AbortSignal.timeout(TIMEOUT_MS);
  let answer;
  try {
    answer = await fetch(address, {
      headers: { "X-Kafka-Twin-Console": "1" },
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Unreachable("The exporter does not answer.");
  }
  let body;
  try {
    body = await answer.json();
  } catch {
    throw signal?.aborted ? new DOMException("", "AbortError")
      : new Unreachable("What answers is not the exporter.");
  }
  if (!answer.ok) throw new Refused(body.error ?? `status ${answer.status}`, answer.status);
  return body;
}
