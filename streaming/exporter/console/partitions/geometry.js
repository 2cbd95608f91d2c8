/** Where each replica has the log: only in remote storage, in both, or on its disk alone. */
import { bytes, count, milliseconds } from "../format.js";
import { Component, createRef, html } from "../ui.js";
import { rangesOf, scaleOf } from "./ranges.js";

const LABEL_PX = 124;
const BAR_PX = 18;
const ROW_PX = 34;
const TOP_PX = 28;
const GROUP_PX = 16;
const GROUPS_SHOWN = 6;

export class Geometry extends Component {
  state = { width: 0 };
  place = createRef();

  componentDidMount() {
    this.sizes = new ResizeObserver(() => this.setState({ width: this.place.current.clientWidth }));
    this.sizes.observe(this.place.current);
  }

  componentWillUnmount() {
    this.sizes.disconnect();
  }

  render({ partition }, { width }) {
    const scale = scaleOf(partition);
    return html`<div ref=${this.place}>
      ${!scale ? html`<p class="muted">Unknown: no replica has said where its log begins and ends.</p>`
        : width > 0 && html`<${Bars} partition=${partition} scale=${scale} width=${width} />`}
      <${Key} />
      <${Thresholds} thresholds=${partition.thresholds} />
    </div>`;
  }
}

function Bars({ partition, scale, width }) {
  const right = width - 12;
  const x = offset => LABEL_PX + ((right - LABEL_PX) * (offset - scale.from)) / (scale.to - scale.from);
  const { replicas, high_watermark: watermark } = partition;
  const groups = readingOf(partition, scale);
  const top = TOP_PX + groups.length * GROUP_PX;
  const bottom = top + replicas.length * ROW_PX;
  const height = bottom + 22;
  return html`<svg class="log" width=${width} height=${height} role="img"
      aria-label=${replicas.map(each => described(each, scale)).join("; ")}>
    ${replicas.map((each, i) => html`<${Bar} key=${each.broker} replica=${each} x=${x} scale=${scale}
      leader=${partition.leader} y=${top + i * ROW_PX} />`)}
    ${groups.map((each, i) => html`<${Reader} key=${each.group} group=${each} x=${x} bottom=${bottom}
      y=${TOP_PX + i * GROUP_PX} right=${right} />`)}
    ${watermark !== null && html`<g class="mark"><line x1=${x(watermark)} x2=${x(watermark)} y1="18" y2=${bottom} />
      <text x=${Math.min(x(watermark), right)} y="12" text-anchor="end">high watermark ${
        count(watermark)}</text></g>`}
    <text class="axis" x=${LABEL_PX} y=${height - 6}>${count(scale.from)}</text>
    <text class="axis" x=${right} y=${height - 6} text-anchor="end">${count(scale.to)}</text>
  </svg>`;
}

/** Groups whose next record is in sight, those that lag most first. */
function readingOf({ groups }, { from, to }) {
  return (groups ?? []).filter(({ committed_offset: at }) => at !== null && at >= from && at <= to)
    .sort((a, b) => a.committed_offset - b.committed_offset).slice(0, GROUPS_SHOWN);
}

/** Where a group of consumers reads next. */
function Reader({ group, x, y, bottom, right }) {
  const at = x(group.committed_offset);
  const isRight = at > (LABEL_PX + right) / 2;
  return html`<g class="reader"><line x1=${at} x2=${at} y1=${y} y2=${bottom} />
    <path d=${`M${at - 5} ${y - 4}h10l-5 7z`} />
    <text x=${isRight ? at - 9 : at + 9} y=${y + 3} text-anchor=${isRight ? "end" : "start"}>${
      group.group} · ${count(group.committed_offset)}</text></g>`;
}

function Bar({ replica, leader, x, y, scale }) {
  const ranges = rangesOf(replica, scale);
  const part = replica.broker === leader ? "leads" : replica.coverage === "cold" ? "cold"
    : replica.coverage === "warm" ? "warm" : "";
  return html`<g><text x="0" y=${y + 13}>broker ${replica.broker}${part && ` · ${part}`}</text>
    ${ranges.length ? ranges.map(({ kind, from, to }) => html`<rect class=${`log-${kind}`}
        x=${x(from)} y=${y} width=${Math.max(x(to) - x(from), 1.5)} height=${BAR_PX}>
        <title>${`broker ${replica.broker}: ${NAMES[kind]}, ${count(from)} to ${count(to)}`}</title></rect>`)
      : html`<text class="axis" x=${LABEL_PX} y=${y + 13}>${
          replica.log_end_offset === null ? "unknown" : "empty"}</text>`}</g>`;
}

const NAMES = {
  remote: "only in remote storage", both: "on disk and in remote storage",
  local: "on disk, not in remote storage", unknown: "on disk, unknown whether uploaded",
};

function described(replica, scale) {
  const ranges = rangesOf(replica, scale).map(({ kind, from, to }) =>
    `${NAMES[kind]} from ${from} to ${to}`);
  return `broker ${replica.broker}: ${ranges.join(", ") || "unknown or empty"}`;
}

function Key() {
  return html`<ul class="legend">${Object.entries(NAMES).map(([kind, name]) => html`
    <li><svg width="16" height="12" aria-hidden="true"><rect class=${`log-${kind}`} width="16"
      height="12" /></svg> ${name}</li>`)}
    <li><svg class="reader" width="12" height="12" aria-hidden="true"><path d="M1 2h10l-5 8z" /></svg>
      ${" "}where a group of consumers reads next</li></ul>`;
}

/** What a local log must hold so that its replica is warm. */
function Thresholds({ thresholds }) {
  const { local_log_ms: ms, local_log_bytes: size } = thresholds;
  const parts = [ms !== null && `spans ${milliseconds(ms)}`, size !== null && `holds ${bytes(size)}`]
    .filter(Boolean);
  return html`<p class="muted">${parts.length
    ? `A replica of this topic is warm if its local log ${parts.join(" or ")}.`
    : "No threshold is set for this topic, so its replicas are neither warm nor cold."}</p>`;
}
