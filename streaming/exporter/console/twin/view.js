/** Is the twin to be trusted? How new it is, what it does not know, and how it has predicted. */
import { url } from "../api.js";
import { bytes, count, duration, ended, milliseconds } from "../format.js";
import { ofWhatIsShown } from "../parts/copy.js";
import { Failed, Waiting } from "../parts/failed.js";
import { recordOf } from "../parts/topbar.js";
import { Time } from "../parts/time.js";
import { Poll } from "../poll.js";
import { ageSeconds } from "../pulse.js";
import { partitionHref } from "../router.js";
import { html } from "../ui.js";
import { gapsOf } from "./gaps.js";
import { Problems } from "./problems.js";

export function TwinView({ pulse }) {
  const { summary, brokers } = pulse;
  if (!summary) return pulse.error ? null : html`<${Waiting} what="Reading the newest snapshot" />`;
  const gaps = gapsOf(summary, brokers);
  return html`
    <section class="card" aria-labelledby="title"><h1 id="title">Is the twin to be trusted?</h1>
      <${Answer} pulse=${pulse} gaps=${gaps} /></section>
    <div class="columns even">
      <section class="card grow" aria-labelledby="gaps-title"><h2 id="gaps-title">What it does not know</h2>
        <${Gaps} gaps=${gaps} /></section>
      <section class="card grow" aria-labelledby="limits-title"><h2 id="limits-title">Thresholds</h2>
        <${Thresholds} summary=${summary} /></section>
    </div>
    <section class="card" aria-labelledby="problems-title"><h2 id="problems-title">Problems of the collector</h2>
      <${Problems} /></section>
    <section class="card" aria-labelledby="record-title"><h2 id="record-title">Track record</h2>
      <${Record} summary=${summary} /><${Newest} /></section>
    <section class="card" aria-labelledby="more-title"><h2 id="more-title">The same for programs</h2>
      <p><a href="metrics">metrics</a> · <a href="api/v1/summary">summary</a> ·${" "}
        <a href="api/v1/brokers">brokers</a> · <a href="api/v1/partitions?at_risk=true">partitions
        at risk</a> · <a href="api/v1/predictions">leader changes</a> ·${" "}
        <a href="api/v1/problems">problems</a> ·${" "}
        <a href="api/v1/openapi.json">OpenAPI description</a></p></section>`;
}

function Answer({ pulse, gaps }) {
  const { summary, error } = pulse;
  const age = ageSeconds(pulse);
  const record = recordOf(summary);
  const lines = [
    error ? ["bad", error.message]
      : summary.up ? ["good", `It is up: the oldest shard was observed ${duration(age)} ago.`]
        : summary.not_live ? ["warn", ended(`This is the past: ${summary.why_not_up}`)]
          : ["bad", ended(`It is not up: ${summary.why_not_up}`)],
    gaps.length ? ["warn", `${gaps.length === 1 ? "One thing is" : `${gaps.length} things are`} unknown to it, listed below.`]
      : ["good", "Nothing that it watches for is unknown to it."],
    !record ? ["unknown", "It has no track record yet."]
      : record.wrong ? ["bad", `It predicted ${count(record.wrong)} of ${count(record.total)} leader changes wrong.`]
        : [record.total ? "good" : "unknown", record.total
          ? `It predicted none of ${count(record.total)} leader changes wrong.`
          : "No leader has changed since it was started, so its predictions are untested."],
  ];
  return html`<ul class="answers">${lines.map(([state, text]) => html`
    <li class=${state}>${text}</li>`)}</ul>`;
}

function Gaps({ gaps }) {
  if (!gaps.length) return html`<p>Nothing that it watches for.</p>`;
  return html`<dl class="gaps">${gaps.map(({ what, why }) => html`
    <div><dt>${what}</dt><dd>${why}</dd></div>`)}</dl>`;
}

function Thresholds({ summary }) {
  const { thresholds, topics_with_thresholds: own } = summary;
  const { local_log_ms: ms, local_log_bytes: size } = thresholds ?? {};
  return html`<dl class="facts">
      <div><dt>local log spans at least</dt><dd>${ms === null ? "off" : milliseconds(ms)}</dd></div>
      <div><dt>or holds at least</dt><dd>${size === null ? "off" : bytes(size)}</dd></div>
      <div><dt>topics with their own</dt><dd>${count(own)}</dd></div>
    </dl>
    <p class="muted">A replica that reaches one of them is warm (KIP-1303). Set them under
      ${" "}<code>[eligibility]</code> in <code>twin.toml</code>;${" "}
      <code>${ofWhatIsShown("kafka-twin whatif threshold --grid")}</code> helps to choose.</p>`;
}

const RESULTS = ["right", "wrong", "overtaken", "unforeseen"];

/** Leader changes by cause and result. */
function Record({ summary }) {
  const byCause = Object.entries(summary.predictions ?? {});
  if (!byCause.length) return html`<p>No leader change has been judged yet.</p>`;
  return html`<div class="wide" tabindex="0" role="region" aria-labelledby="record-title">
    <table class="numbers"><thead><tr><th scope="col">leader changed by</th>
      ${RESULTS.map(name => html`<th scope="col">${name}</th>`)}</tr></thead>
    <tbody>${byCause.map(([cause, results]) => html`<tr><th scope="row">${cause}</th>
      ${RESULTS.map(name => html`<td class=${!results[name] ? "muted" : name === "wrong" ? "bad" : ""}>
        ${count(results[name])}</td>`)}</tr>`)}</tbody></table></div>
    <p class="muted">Right: Kafka elected the predicted leader. Wrong: another one, and nothing observed
      explains it. Overtaken: something else changed in between. Unforeseen: a replica that was not
      known.</p>`;
}

function Newest() {
  return html`<${Poll} url=${url("predictions", { limit: 20 })} every=${5_000}>
    ${({ answer, error }) => html`<${Failed} error=${error} />
      ${answer?.total > 0 && html`<h3>Newest leader changes</h3>
      <div class="wide" tabindex="0" role="region" aria-label="Newest leader changes">
      <table class="list"><thead><tr><th scope="col">when</th><th scope="col">partition</th>
        <th scope="col">by</th><th scope="col">leader</th><th scope="col">predicted</th>
        <th scope="col">result</th></tr></thead>
      <tbody>${answer.predictions.map(each => html`<tr>
        <td><${Time} ms=${each.at_ms} /></td>
        <th scope="row"><a href=${partitionHref(each.topic, each.partition)}>${
          each.topic}-${each.partition}</a></th>
        <td>${each.cause ?? "unknown"}</td>
        <td>${named(each.old_leader)} → ${named(each.new_leader)}</td>
        <td>${named(each.predicted_leader)}</td>
        <td class=${each.result === "wrong" ? "bad" : each.result === "right" ? "good" : ""}>${
          each.result ?? "unknown"}</td></tr>`)}</tbody></table></div>`}`}<//>`;
}

const named = id => (id < 0 ? "nobody" : id);
