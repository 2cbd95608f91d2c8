/** Each log directory as a strip: what is in it by class, what is free, and when it is full. */
import { url } from "../api.js";
import { bytes, count, counted } from "../format.js";
import { Failed } from "../parts/failed.js";
import { Poll } from "../poll.js";
import { partitionHref } from "../router.js";
import { html } from "../ui.js";
import { WhenFull } from "./disk_full.js";

const EVERY_MS = 15_000;
const MOST = 60; // strips: those that have failed, will soon be full, and the fullest
const NAMED = 10; // partitions of a directory that has failed

const CLASSES = {
  untiered: "not tiered", waiting: "waiting for upload", tiered: "uploaded, still kept",
  unjudged: "of unknown class", future: "being moved in", unassigned: "of nobody",
  unlisted: "of topics that are not observed", other: "other files",
};

export function Disks() {
  return html`<${Poll} url=${url("brokers/log-dirs", { limit: NAMED })} every=${EVERY_MS}>
    ${({ answer, error }) => html`<${Failed} error=${error} />${
      answer?.log_dirs?.length > 0 && html`<${Card} disks=${answer.log_dirs} />`}`}<//>`;
}

/** The share of its volume that is free; what is unknown comes after what is known. */
const freeShare = ({ usable_bytes: free, total_bytes: total }) =>
  (free === null || !total ? 2 : free / total);

const NEAR = { page: 2, warn: 1 };
const near = ({ full }) => NEAR[full.near] ?? 0;

function Card({ disks }) {
  const worst = [...disks].sort((a, b) => b.has_failed - a.has_failed || near(b) - near(a)
    || freeShare(a) - freeShare(b) || a.broker - b.broker);
  const shown = worst.slice(0, MOST);
  const used = Object.keys(CLASSES).filter(name => shown.some(each => each[`${name}_bytes`]));
  return html`<section class="card" aria-labelledby="disks-title">
    <h2 id="disks-title">Log directories</h2>
    <p class="muted">Those that have failed first, then those that will soon be full, then the fullest.${disks.length > shown.length
      && ` ${counted(disks.length - shown.length, "more is", "more are")} not shown.`}</p>
    <ul class="key-list">${used.map(name => html`<li><span class=${`key disk-${name}`}></span>${CLASSES[name]}</li>`)}
      <li><span class="key disk-free"></span>free</li></ul>
    <ul class="disks">${shown.map(each => html`<${Disk} key=${`${each.broker} ${each.log_dir}`} disk=${each} />`)}</ul>
  </section>`;
}

function Disk({ disk }) {
  const { broker, log_dir: path, volume, has_failed: failed } = disk;
  const isShared = volume !== null && volume !== path;
  return html`<li><span class="where"><b>Broker ${broker}</b> <code>${path}</code></span>
    ${failed ? html`<${Broken} disk=${disk} />` : html`<${Strip} disk=${disk} />
      <span class="muted">${isShared ? html`on the volume of <code>${volume}</code>` : spaceOf(disk)}</span>
      <${WhenFull} disk=${disk} />`}</li>`;
}

function spaceOf({ usable_bytes: free, total_bytes: total, size_is_configured: configured }) {
  if (total === null) return "size unknown";
  return `${bytes(free)} free of ${bytes(total)}${configured ? ", as configured" : ""}`;
}

function Strip({ disk }) {
  const parts = Object.entries(CLASSES)
    .map(([name, text]) => [name, text, Math.max(disk[`${name}_bytes`] ?? 0, 0)])
    .filter(([, , size]) => size > 0);
  const filled = parts.reduce((sum, [, , size]) => sum + size, 0);
  const whole = Math.max(disk.total_bytes ?? 0, filled, 1);
  const label = parts.map(([, text, size]) => `${bytes(size)} ${text}`).join(", ") || "empty";
  return html`<span class="strip" role="img" aria-label=${label} title=${label}>${parts.map(
    ([name, , size]) => html`<i class=${`disk-${name}`} style=${{ width: `${(100 * size) / whole}%` }}></i>`)}</span>`;
}

/** The partitions whose replicas were in it; the broker no longer knows what is there. */
function Broken({ disk }) {
  const { offline, offline_left_out: more, offline_replicas: replicas } = disk;
  return html`<span class="broken"><span class="pill bad">failed</span> ${
      counted(replicas ?? 0, "replica is", "replicas are")} offline${offline.length > 0 && ": "}${
      offline.map(({ topic, partition }, i) => html`${i > 0 && ", "}<a
        href=${partitionHref(topic, partition)}>${topic}-${partition}</a>`)}${
      more > 0 && ` and ${count(more)} more`}</span>`;
}
