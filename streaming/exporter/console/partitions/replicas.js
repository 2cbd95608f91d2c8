/** The replicas of a partition in assignment order, as the controller and they themselves say. */
import { bytes, count, duration, milliseconds } from "../format.js";
import { Square } from "../cluster/square.js";
import { html } from "../ui.js";
import { COVERAGES, SQUARES } from "../words.js";

/** The square of a replica, by the same order as the matrix has. */
export function squareOf(replica, leader) {
  if (replica.offline) return "offline";
  if (replica.broker === leader) return replica.coverage === "cold" ? "leads_cold" : "leads";
  if (replica.in_isr) return replica.coverage ?? "assumed";
  if (replica.adding) return "joining";
  return replica.in_elr ? "elr" : "out_of_sync";
}

export function Replicas({ partition }) {
  return html`<div class="wide" tabindex="0" role="region" aria-label="Replicas"><table class="numbers">
    <thead><tr><th scope="col">broker</th><th scope="col" class="text">is</th>
      <th scope="col" class="text">local log</th><th scope="col">spans</th><th scope="col">holds</th>
      <th scope="col">lag in records</th><th scope="col">last caught up</th>
      <th scope="col">warm in</th><th scope="col">log start</th><th scope="col">local log start</th>
      <th scope="col">log end</th><th scope="col">observed</th></tr></thead>
    <tbody>${partition.replicas.map(each => html`
      <${Line} key=${each.broker} replica=${each} partition=${partition} />`)}</tbody></table></div>`;
}

function Line({ replica, partition }) {
  const state = squareOf(replica, partition.leader);
  const caughtUp = replica.caught_up_at_ms === null || partition.observed_at_ms === null ? null
    : (partition.observed_at_ms - replica.caught_up_at_ms) / 1_000;
  const old = replica.age_seconds === null || replica.age_seconds > 60;
  return html`<tr class=${old ? "old" : ""}><th scope="row">${replica.broker}</th>
    <td class="text"><${Square} state=${state} /> ${SQUARES[state].split(":")[0]}</td>
    <td class=${`text ${replica.coverage === "cold" ? "warn" : ""}`}>${COVERAGES[replica.coverage] ?? "unknown"}</td>
    <td>${milliseconds(replica.local_log_span_ms)}${replica.timestamp_suspect ? " (doubtful)" : ""}</td>
    <td>${bytes(replica.held_bytes)}</td><td>${count(replica.lag_records)}</td>
    <td>${caughtUp === null ? "unknown" : `${duration(caughtUp)} before`}</td>
    <td>${warmIn(replica)}</td><td>${count(replica.log_start_offset)}</td>
    <td>${count(replica.local_log_start_offset)}</td><td>${count(replica.log_end_offset)}</td>
    <td>${replica.age_seconds === null ? "never" : `${duration(replica.age_seconds)} ago`}</td></tr>`;
}

const IN_SIGHT_S = 30 * 86_400;

function warmIn({ coverage, never_warm: never, warm_in_s: seconds }) {
  if (coverage === "not_judged") return "not judged";
  if (coverage === "warm") return "is warm";
  if (never) return "never";
  return seconds > IN_SIGHT_S ? html`<span title=${duration(seconds)}>not in sight</span>` : duration(seconds);
}
