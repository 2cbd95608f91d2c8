/** All moments of the past in one line: where changes were, and which moment is shown. */
import { ask, url } from "../api.js";
import { moment } from "../format.js";
import { Time } from "../parts/time.js";
import { Poll } from "../poll.js";
import { Component, createRef, html } from "../ui.js";
import { Controls } from "./controls.js";
import { inWords } from "./counts.js";
import { Heat } from "./heat.js";
import { choose, chosen, textOf } from "./moment.js";
import { PLAYER } from "./player.js";

const EVERY_MS = 30_000;
const COLUMN_PX = 6;
const MOST_COLUMNS = 240;
const MEANINGS = [
  ["page", "a risk that pages"], ["of-broker", "a broker"], ["warn", "another risk"], ["calm", "other"],
];
const LEAP = 10; // of so many parts of the span is a step of Page Up

/** Props: `span`, the moments that there are; `shownMs`, the one that is shown; null: the newest. */
export function PastBar({ span, shownMs }) {
  const columns = Math.min(MOST_COLUMNS, Math.floor(innerWidth / COLUMN_PX));
  return html`<${Poll} url=${url("history/changes", { buckets: columns })} every=${EVERY_MS}>${
    ({ answer }) => html`<${Bar} span=${answer?.span ?? span} changes=${answer} shownMs=${shownMs} />`}<//>`;
}

class Bar extends Component {
  track = createRef();
  state = { pointedMs: null, isDragged: false };

  /** The moment below the pointer: the end of its column, so that all its changes have happened. */
  momentAt(event) {
    const { span, changes } = this.props;
    const { left, width } = this.track.current.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - left) / width));
    const at = span.begin_ms + share * (span.end_ms - span.begin_ms);
    if (!changes) return Math.round(at);
    const column = Math.floor((at - changes.begin_ms) / changes.bucket_ms);
    return Math.min(span.end_ms, changes.begin_ms + (column + 1) * changes.bucket_ms - 1);
  }

  /** The newest moment has no place in the URL: there, what comes later is shown as well. */
  show(ms) {
    const { begin_ms: begin, end_ms: end } = this.props.span;
    choose(ms >= end ? null : Math.max(begin, Math.round(ms)));
  }

  down = event => {
    if (event.button) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    this.setState({ pointedMs: this.momentAt(event), isDragged: true });
  };

  move = event => this.setState({ pointedMs: this.momentAt(event) });

  up = event => {
    if (!this.state.isDragged) return;
    this.setState({ isDragged: false });
    this.show(this.momentAt(event));
  };

  leave = () => this.state.isDragged || this.setState({ pointedMs: null });

  cancel = () => this.setState({ isDragged: false, pointedMs: null });

  /** To the nearest change before, or after, what is shown. */
  async step(name) {
    if (this.isAsking) return;
    this.isAsking = true;
    try {
      const around = chosen() || textOf(this.props.span.end_ms);
      const { nearest } = await ask(url("history/changes", { around, buckets: 1 }));
      const next = nearest[name];
      if (next !== null) this.show(next);
      else this.show(name === "before_ms" ? this.props.span.begin_ms : this.props.span.end_ms);
    } catch {
      // The banner says that the exporter does not answer, or why it refuses the moment.
    } finally {
      this.isAsking = false;
    }
  }

  pressed = event => {
    const { span } = this.props;
    const at = this.props.shownMs ?? span.end_ms;
    const leap = (span.end_ms - span.begin_ms) / LEAP;
    const to = {
      ArrowLeft: () => this.step("before_ms"), ArrowDown: () => this.step("before_ms"),
      ArrowRight: () => this.step("after_ms"), ArrowUp: () => this.step("after_ms"),
      PageDown: () => this.show(at - leap), PageUp: () => this.show(at + leap),
      " ": () => PLAYER.toggle(),
      Home: () => this.show(span.begin_ms), End: () => this.show(span.end_ms),
    }[event.key];
    if (!to || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    to();
  };

  render({ span, changes, shownMs }, { pointedMs, isDragged }) {
    const at = (isDragged ? pointedMs : shownMs) ?? span.end_ms;
    const said = pointedMs ?? at;
    const length = Math.max(span.end_ms - span.begin_ms, 1);
    const place = `${100 * (Math.min(span.end_ms, Math.max(span.begin_ms, at)) - span.begin_ms) / length}%`;
    const what = ms => `${moment(ms)}, ${inWords(columnOf(changes, ms)?.counts)}`;
    return html`<section class="past-bar" aria-label="Moments of the past">
      <button type="button" class="step" onClick=${() => this.step("before_ms")}
        disabled=${at <= span.begin_ms} aria-label="Previous change" title="Previous change">◀</button>
      <div class="track" ref=${this.track} role="slider" tabindex="0" aria-label="Moment that is shown"
        aria-valuemin=${span.begin_ms} aria-valuemax=${span.end_ms} aria-valuenow=${at}
        aria-valuetext=${what(at)} onKeyDown=${this.pressed} onPointerDown=${this.down}
        onPointerMove=${this.move} onPointerUp=${this.up} onPointerLeave=${this.leave}
        onPointerCancel=${this.cancel}>
        ${changes && html`<${Heat} changes=${changes} />`}
        <span class="cursor" style=${{ left: place }}></span>
      </div>
      <button type="button" class="step" onClick=${() => this.step("after_ms")}
        disabled=${at >= span.end_ms} aria-label="Next change" title="Next change">▶</button>
      <p class="ends"><span><${Time} ms=${span.begin_ms} /></span>
        <span class="meaning">${MEANINGS.map(([name, text]) => html`
          <span><i class=${name}></i>${text}</span>`)}</span>
        <span><${Time} ms=${span.end_ms} /></span>
        <span class=${pointedMs === null ? "said" : "said pointed"}>${changes && what(said)}</span></p>
      <${Controls} span=${span} atMs=${at} />
    </section>`;
  }
}

/** The stretch of that moment, if anything changed in it. */
function columnOf(changes, ms) {
  return changes?.buckets.find(({ begin_ms: begin }) => begin <= ms && ms < begin + changes.bucket_ms);
}
