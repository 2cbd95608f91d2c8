/** The summary and the brokers, asked every two seconds for the whole console. */
import { ask, url } from "./api.js";
import { chosen } from "./past/moment.js";

const EVERY_MS = 2_000;

/**
 * Calls `changed` with {summary, brokers, error, receivedAt, at} after every answer and at once when
 * nobody answers. What was answered last stays: it grows old, and its age is shown. `at` is the
 * moment that was asked about. The function that is returned asks at once.
 */
export function watch(changed) {
  let last = { summary: null, brokers: null, error: null, receivedAt: 0, at: chosen() };
  let timer;
  const turn = async () => {
    clearTimeout(timer);
    const at = chosen();
    let next;
    try {
      const [summary, { brokers }] = await Promise.all([ask(url("summary")), ask(url("brokers"))]);
      next = { summary, brokers, error: null, receivedAt: performance.now(), at };
    } catch (error) {
      next = { ...last, error };
    }
    if (at !== chosen()) return; // another moment was chosen meanwhile, and is asked about
    last = next;
    changed(last);
    clearTimeout(timer);
    timer = setTimeout(turn, EVERY_MS);
  };
  document.addEventListener("visibilitychange", () => document.hidden || turn());
  turn();
  return turn;
}

/** Seconds since the newest observation, as of now; null if there is none. */
export function ageSeconds(pulse) {
  const age = pulse.summary?.age_seconds;
  if (age === null || age === undefined) return null;
  return age + (performance.now() - pulse.receivedAt) / 1_000;
}
