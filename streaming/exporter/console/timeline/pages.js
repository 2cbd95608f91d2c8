/** Events of the past, a page after another, the newest first, until there are enough. */
import { ask, url } from "../api.js";

const PAGE = 1_000;
const MOST_READ = 50_000;

/** As an EventStream to look at; it ends, and reads only as far as somebody wants to see. */
export class PastEvents {
  events = [];
  error = null;
  isReading = false;
  missed = false;
  total = Infinity;
  #stopped = new AbortController();
  #isAsking = false;

  /** Events up to `to`, a moment as the API reads it. `changed` is called after each page. */
  constructor(parameters, changed, to) {
    this.parameters = { ...parameters, to, sort: "newest", limit: PAGE };
    this.changed = changed;
  }

  stop() {
    this.#stopped.abort();
  }

  /** Whether there may be more than was read. */
  get isCut() {
    return this.events.length >= MOST_READ && this.events.length < this.total;
  }

  /** Read on until so many are wanted, or all are read. */
  async need(wanted, most) {
    if (this.#isAsking) return;
    this.#isAsking = true;
    const { signal } = this.#stopped;
    try {
      while (!signal.aborted && this.events.length < Math.min(this.total, MOST_READ)
          && this.events.filter(wanted).length <= most) {
        const offset = this.events.length;
        const page = await ask(url("history/events", { ...this.parameters, offset }), signal);
        this.total = page.events.length ? page.total : offset;
        this.events = [...this.events, ...page.events];
        this.isReading = true;
        this.error = null;
        this.changed();
      }
    } catch (error) {
      this.error = error;
      if (!signal.aborted) this.changed();
    } finally {
      this.#isAsking = false;
    }
  }
}
