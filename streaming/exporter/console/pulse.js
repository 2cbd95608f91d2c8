/** The summary and the brokers, asked every two seconds for the whole console. */
import { ask, url } from "./api.js";

const EVERY_MS = 2_000;

/**
 * Calls `changed` with {summary, brokers, error, receivedAt} after every answer and at once when
 * nobody answers. What was answered last stays: it grows old, and its age is shown.
 */
export function watch(changed) {
  let last = { summary: null, brokers: null, error: null, receivedAt: 0 };
  let timer;
  const turn = async () => {
    clearTimeout(timer);
    try {
      const [summary, { brokers }] = await Promise.all([ask(url("summary")), ask(url("brokers"))]);
      last = { summary, brokers, error: null, receivedAt: performance.now() };
    } catch (error) {
      last = { ...last, error };
    }
    changed(last);
    timer = setTimeout(turn, EVERY_MS);
  };
  document.addEventListener("visibilitychange", () => document.hidden || turn());
  turn();
}

/** Seconds since the newest observation, as of now; null if there is none. */
export function ageSeconds(pulse) {
  const age = pulse.summary?.age_seconds;
  if (age === null || age === undefined) return null;
  return age + (performance.now() - pulse.receivedAt) / 1_000;
}
