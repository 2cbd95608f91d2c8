/** Changes as they happen, and those before them that the exporter keeps. */
import { Refused, url } from "../api.js";

const AGAIN_AFTER_MS = 2_000;
const MOST_KEPT = 2_000;
/** The id of an event before all others: what is kept is sent first. */
const FROM_THE_BEGINNING = "0:0";

/** Server-sent events of text that comes in pieces: {id, kind, data} of each block. */
export class Blocks {
  rest = "";

  *of(piece) {
    const blocks = (this.rest + piece).split("\n\n");
    this.rest = blocks.pop();
    for (const block of blocks) {
      const fields = { kind: "message", data: "" };
      for (const line of block.split("\n")) {
        const [, name, value] = /^(\w*): ?(.*)$/.exec(line) ?? [];
        if (name === "id") fields.id = value;
        if (name === "event") fields.kind = value;
        if (name === "data") fields.data += value;
      }
      yield fields;
    }
  }
}

/** Reads until it is stopped; `events` has the newest first. `changed` is called once a frame. */
export class EventStream {
  events = [];
  error = null;
  isReading = false;
  missed = false;
  id = FROM_THE_BEGINNING;
  known = new Set();

  constructor(parameters, changed) {
    this.address = url("events", parameters);
    this.changed = () => {
      this.frame ??= requestAnimationFrame(() => {
        this.frame = null;
        if (!this.stopped.signal.aborted) changed();
      });
    };
    this.stopped = new AbortController();
    this.run();
  }

  stop() {
    this.stopped.abort();
  }

  async run() {
    const { signal } = this.stopped;
    while (!signal.aborted) {
      try {
        await this.read(signal);
      } catch (error) {
        this.error = error instanceof Refused ? error : new Error("The exporter does not answer.");
      }
      this.isReading = false;
      this.changed();
      await new Promise(resolve => setTimeout(resolve, AGAIN_AFTER_MS));
    }
  }

  async read(signal) {
    const answer = await fetch(this.address, { signal, headers: { "Last-Event-ID": this.id } });
    if (!answer.ok) throw new Refused((await answer.json()).error, answer.status);
    this.error = null;
    this.isReading = true;
    this.changed();
    const blocks = new Blocks();
    const text = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let piece = await text.read(); !piece.done; piece = await text.read()) {
      for (const block of blocks.of(piece.value)) this.take(block);
      this.changed();
    }
  }

  take({ id, kind, data }) {
    if (kind === "gap" && this.id !== FROM_THE_BEGINNING) this.missed = true;
    if (id) this.id = id;
    if (kind !== "message" || !data) return;
    const event = JSON.parse(data);
    if (this.known.has(event.id)) return; // the bus may deliver an event twice
    this.known.add(event.id);
    this.events.unshift(event);
    if (this.events.length > MOST_KEPT) this.known.delete(this.events.pop().id);
  }
}
