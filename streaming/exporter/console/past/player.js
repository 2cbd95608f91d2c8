/**
 * Plays the past: shows one moment after another, as fast as is chosen, until the newest one.
 *
 * The next moment is asked about when all answers about this one are there, never before: a slow
 * exporter is played in larger steps, and not asked twice at a time.
 */
import { isAsking } from "../api.js";
import { choose, chosen } from "./moment.js";

export const SPEEDS = [1, 5, 10, 30, 60];
const DEFAULT_SPEED = 10;

const LOOKS_EVERY_MS = 100;
const LEAST_MS = 250; // that a moment is shown
const LEAST_MS_CALM = 2_000; // for people who want little motion: fewer and larger steps

const isCalm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

class Player {
  speed = DEFAULT_SPEED;
  isPlaying = false;
  changed = () => {};
  #span = null;
  #shownMs = 0;
  #cycleMs = 0;
  #isShown = false;
  #sinceMs = 0;

  /** The span of the past, the moment that is shown, the usual time between two of them, and whether
   * its answers are there. */
  note(span, shownMs, cycleMs, isShown) {
    if (!this.#isShown && isShown) this.#sinceMs = performance.now();
    this.#span = span;
    this.#cycleMs = cycleMs ?? 0;
    if (isShown) this.#shownMs = shownMs;
    this.#isShown = isShown;
  }

  toggle() {
    if (this.isPlaying) this.stop();
    else this.start();
  }

  /** From the moment that is shown, or from the beginning if that is the newest one. */
  start() {
    if (!this.#span || this.isPlaying) return;
    this.isPlaying = true;
    this.#sinceMs = performance.now();
    if (!chosen() || this.#shownMs >= this.#span.end_ms) this.#show(this.#span.begin_ms, false);
    this.timer = setInterval(() => this.#look(), LOOKS_EVERY_MS);
    this.changed();
  }

  stop() {
    clearInterval(this.timer);
    this.isPlaying = false;
    this.changed();
  }

  choose(speed) {
    this.speed = speed;
    this.changed();
  }

  #look() {
    const passedMs = performance.now() - this.#sinceMs;
    const least = isCalm() ? LEAST_MS_CALM : LEAST_MS;
    if (document.hidden || !this.#isShown || isAsking() || passedMs < least) return;
    const { end_ms: endMs } = this.#span;
    const nextMs = Math.round(this.#shownMs + passedMs * this.speed);
    if (nextMs - this.#shownMs < this.#cycleMs && nextMs < endMs) return; // it is of the same cycle
    if (nextMs < endMs) {
      this.#show(nextMs, true);
      return;
    }
    this.stop();
    choose(null, { replace: true });
  }

  /** A played moment replaces the one before in the browser's history: back leads to the start. */
  #show(ms, replace) {
    this.#isShown = false;
    this.#sinceMs = performance.now();
    this.#shownMs = ms;
    choose(ms, { replace });
  }
}

export const PLAYER = new Player();
