/** One partition: where its log is, who leads next and why, its risks, segments and epochs. */
import { ofPartition, url } from "../api.js";
import { count, counted, duration } from "../format.js";
import { Failed, Waiting } from "../parts/failed.js";
import { Time } from "../parts/time.js";
import { askedAbout } from "../past/when.js";
import { Poll } from "../poll.js";
import { href } from "../router.js";
import { Events } from "../timeline/events.js";
import { html } from "../ui.js";
import { Findings } from "./findings.js";
import { Geometry } from "./geometry.js";
import { Epochs, Segments } from "./history.js";
import { Next } from "./next.js";
import { Replicas } from "./replicas.js";
import { Risks } from "./risks.js";

const EVENTS = 20;

export function PartitionPage({ route, pulse }) {
  const [, topic, number] = route.path;
  const { risks = {}, election_rules: rules = {} } = pulse.summary ?? {};
  return html`<${Poll} key=${`${topic}/${number}`} url=${url(ofPartition(topic, number))}>
    ${({ answer, error }) => (answer
      ? html`<${Known} partition=${answer} risks=${risks} rules=${rules} error=${error} />`
      : html`<section class="card"><h1>${topic}-${number}</h1>
        ${error ? html`<${Failed} error=${error} />` : html`<${Waiting} what="Asking" />`}</section>`)}<//>`;
}

function Known({ partition, risks, rules, error }) {
  const { topic, partition: number } = partition;
  return html`
    <section class="card" aria-labelledby="title">
      <p><a href=${href(["partitions"], { topic })}>All partitions of ${topic}</a></p>
      <h1 id="title">${topic}-${number}</h1>
      <${Failed} error=${error} />
      <${Facts} partition=${partition} />
    </section>
    <section class="card" aria-labelledby="log-title"><h2 id="log-title">Where its log is</h2>
      <${Geometry} partition=${partition} /></section>
    <div class="columns even">
      <section class="card grow" aria-labelledby="next-title"><h2 id="next-title">If its leader is lost</h2>
        <${Next} partition=${partition} rules=${rules} /></section>
      <section class="card grow" aria-labelledby="risks-title"><h2 id="risks-title">Risks</h2>
        <${Risks} topic=${topic} number=${number} names=${partition.risks} risks=${risks} /></section>
    </div>
    <section class="card" aria-labelledby="findings-title"><h2 id="findings-title">Findings</h2>
      <${Findings} partition=${partition} /></section>
    <section class="card" aria-labelledby="replicas-title"><h2 id="replicas-title">Replicas</h2>
      <${Replicas} partition=${partition} /></section>
    <div class="columns even">
      <section class="card grow" aria-labelledby="segments-title">
        <h2 id="segments-title">Segments in remote storage</h2>
        <${Segments} topic=${topic} number=${number} /></section>
      <section class="card grow" aria-labelledby="epochs-title">
        <h2 id="epochs-title">Leader epochs</h2>
        <${Epochs} topic=${topic} number=${number} /></section>
    </div>
    <section class="card" aria-labelledby="events-title"><h2 id="events-title">What happened</h2>
      <${Events} key=${askedAbout()} parameters=${{ topic }} wanted=${event => event.partition === number} most=${EVENTS} />
    </section>`;
}

function Facts({ partition }) {
  const { leader, leader_epoch: epoch, isr, min_isr: least } = partition;
  const rate = partition.appended_records_per_s;
  const short = isr.length < least;
  return html`<dl class="facts">
    <div><dt>leader</dt><dd class=${leader === -1 ? "bad" : ""}>${
      leader === null ? "unknown" : leader < 0 ? "nobody" : leader}</dd></div>
    <div><dt>leader epoch</dt><dd>${count(epoch)}</dd></div>
    <div><dt>ISR</dt><dd class=${short ? "bad" : ""}>${isr.join(" ") || "empty"}${
      short ? `, ${least} needed` : ""}</dd></div>
    <div><dt>min ISR</dt><dd>${count(least)}</dd></div>
    <div><dt>written</dt><dd>${rate === null ? "unknown"
      : `${counted(Math.round(rate * 10) / 10, "record")}/s`}</dd></div>
    <div><dt>high watermark</dt><dd>${count(partition.high_watermark)}</dd></div>
    <div><dt>to upload</dt><dd>${partition.upload_lag_records === null ? "unknown"
      : counted(partition.upload_lag_records, "record")}</dd></div>
    ${partition.open_transaction && html`<div><dt>open transaction</dt><dd>${
      holder(partition.open_transaction)}</dd></div>`}
    <div><dt>observed</dt><dd>${partition.age_seconds === null ? "unknown"
      : `${duration(partition.age_seconds)} ago`}</dd></div>
  </dl>`;
}

/** Who holds a transaction, and since when: by its coordinator, else since it was observed. */
function holder({ transactional_id: id, producer_id: producer, began_at_ms: began, since_ms: since }) {
  const who = producer === null ? "unknown producer" : `producer ${producer}`;
  return html`${id === null ? who : `${id}, ${who}`}, since <${Time} ms=${began ?? since} />`;
}
