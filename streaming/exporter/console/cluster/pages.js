/** The topics of the matrix, a page at a time: those in sight are asked for, again and again. */
import { ask, url } from "../api.js";

export const PAGE = 60;
const EVERY_MS = 3_000;
const MOST_LISTED = 1_000;

/** Holds pages of topics and lists of partitions for one question; `changed` after each answer. */
export class Pages {
  topics = new Map(); // by place
  opened = new Map(); // topics whose partitions are listed, by name
  total = null;
  lost = [];
  error = null;
  wanted;

  constructor({ search, loss, open, listed, wanted }, changed) {
    this.parameters = { search, ...loss };
    this.open = open;
    this.listed = listed;
    this.wanted = wanted ?? new Set([0]);
    this.changed = changed;
    this.stopped = new AbortController();
    this.turn();
  }

  stop() {
    this.stopped.abort();
    clearTimeout(this.timer);
  }

  /** The rows from one place to before another are in sight. */
  show(from, to) {
    const pages = new Set();
    for (let page = Math.floor(from / PAGE); page * PAGE < Math.max(to, 1); page += 1) {
      pages.add(page);
    }
    const isNew = [...pages].some(page => !this.topics.has(page * PAGE) && !this.wanted.has(page));
    this.wanted = pages;
    if (isNew) this.turn();
  }

  async turn() {
    clearTimeout(this.timer);
    const turn = (this.newest = Symbol("turn"));
    try {
      await Promise.all([...[...this.wanted].map(page => this.askPage(page)),
        ...this.open.map(topic => this.askTopic(topic))]);
      this.error = null;
    } catch (error) {
      if (this.stopped.signal.aborted) return;
      this.error = error;
    }
    if (this.stopped.signal.aborted) return;
    this.changed();
    if (turn === this.newest) {
      this.timer = setTimeout(() => (document.hidden ? this.rest() : this.turn()), EVERY_MS);
    }
  }

  rest() {
    document.addEventListener("visibilitychange", () => this.turn(),
      { once: true, signal: this.stopped.signal });
  }

  async askPage(page) {
    const answer = await this.ask({
      ...this.parameters, partitions: this.listed, limit: PAGE, offset: page * PAGE,
    });
    answer.topics.forEach((topic, i) => this.topics.set(page * PAGE + i, topic));
    if (this.total !== answer.total) {
      this.total = answer.total;
      for (const place of this.topics.keys()) if (place >= answer.total) this.topics.delete(place);
    }
    this.lost = answer.lost;
  }

  async askTopic(topic) {
    const { topics } = await this.ask({ ...this.parameters, search: "", topic,
      partitions: MOST_LISTED });
    if (topics.length) this.opened.set(topic, topics[0].listed ?? []);
    else this.opened.delete(topic);
  }

  async ask(parameters) {
    return await ask(url("matrix", parameters), this.stopped.signal);
  }

  /** [{topic}, {topic, partition}, …] of the rows from one place to before another. */
  rows(from, to) {
    const rows = [];
    let row = 0;
    const opened = [...this.topics].filter(([, topic]) => this.opened.has(topic.topic))
      .sort(([a], [b]) => a - b);
    let place = 0;
    const skipTo = end => {
      // Topics that are not open have one row each, so whole runs of them are skipped at once.
      const first = Math.max(from, row);
      for (let at = first; at < Math.min(to, row + end - place); at += 1) {
        rows.push({ at, place: place + at - row, topic: this.topics.get(place + at - row) });
      }
      row += end - place;
      place = end;
    };
    for (const [at, topic] of opened) {
      skipTo(at + 1);
      for (const partition of this.opened.get(topic.topic)) {
        if (row >= from && row < to) rows.push({ at: row, topic, partition });
        row += 1;
      }
    }
    skipTo(this.total ?? 0);
    return { rows, count: row };
  }
}
