/**
 * The changes of the past as columns: higher where there were more, red where a risk would page,
 * and dark where a broker went or came, which is what most people look for.
 */
import { Component, html } from "../ui.js";
import { layersOf } from "./counts.js";

const HEIGHT = 100;
const LEAST = 22; // a single change must be seen

/** The least share of a column: one risk that pages is seen among a thousand new leaders. */
const LEAST_SHARE = .25;

/** [class, share of the column] from the bottom. */
function sharesOf(counts) {
  const layers = layersOf(counts).map(([name, number]) =>
    [name, Math.max(number / counts.total, LEAST_SHARE)]);
  const sum = layers.reduce((total, [, share]) => total + share, 0);
  return layers.map(([name, share]) => [name, share / sum]);
}

/** Of a column; as a logarithm, since one loss makes thousands of changes. */
const heightOf = (total, most) =>
  LEAST + (HEIGHT - LEAST) * (most > 1 ? Math.log(total) / Math.log(most) : 1);

/** Props: `changes`, an answer of the API. It is drawn once for each answer. */
export class Heat extends Component {
  shouldComponentUpdate(next) {
    return next.changes !== this.props.changes;
  }

  render({ changes }) {
    const { begin_ms: begin, end_ms: end, bucket_ms: length, buckets } = changes;
    const columns = Math.max(1, Math.ceil((end - begin + 1) / length));
    const most = Math.max(...buckets.map(each => each.counts.total), 1);
    return html`<svg class="heat" viewBox=${`0 0 ${columns} ${HEIGHT}`} preserveAspectRatio="none"
      aria-hidden="true">${buckets.map(({ begin_ms: at, counts }) => {
        const height = heightOf(counts.total, most);
        let top = HEIGHT;
        return sharesOf(counts).map(([name, share]) => {
          const part = height * share;
          top -= part;
          return html`<rect class=${name} x=${Math.floor((at - begin) / length) + .06} y=${top}
            width=".88" height=${part} />`;
        });
      })}</svg>`;
  }
}
