/** What a lost broker would copy if it came back after some time, or never. */
import { url } from "../api.js";
import { bytes, counted, duration } from "../format.js";
import { Command } from "../parts/copy.js";
import { Failed, Waiting } from "../parts/failed.js";
import { Poll } from "../poll.js";
import { Component, html } from "../ui.js";

const AWAY = [["1m", "a minute"], ["5m", "5 minutes"], ["15m", "15 minutes"], ["1h", "an hour"], ["8h", "8 hours"]];

export class Return extends Component {
  state = { away: "5m" };

  render({ broker }, { away }) {
    return html`<h3>If it comes back</h3>
      <form class="filters" onSubmit=${event => event.preventDefault()}><label>after
        <select value=${away} onChange=${event => this.setState({ away: event.target.value })}>
          ${AWAY.map(([value, text]) => html`<option value=${value}>${text}</option>`)}</select></label></form>
      <${Poll} key=${`${broker} ${away}`} url=${url("whatif/recovery", { broker, away })}>${({ answer, error }) => html`
        <${Failed} error=${error} />
        ${answer ? html`<${Recovery} answer=${answer} />` : !error && html`<${Waiting} what="Asking" />`}`}<//>
      <${Command} text=${`kafka-twin whatif recovery --broker ${broker} --away ${away}`} />`;
  }
}

function Recovery({ answer }) {
  const rate = `${bytes(answer.rate_bytes_per_s)}/s`;
  const [on, off] = answer.permanent.ways;
  const when = answer.in_sync_s === null ? "is never in sync, since as much is written meanwhile"
    : `is in sync ${duration(answer.in_sync_s)} after its return`;
  const source = answer.rate_is_measured ? ", as measured when brokers came back" : "";
  return html`<p>It copies ${bytes(answer.from_leader_bytes)} and ${when}, if it copies ${rate}${source}.</p>
    ${answer.restarted > 0 && html`<p class="warn">${counted(answer.restarted, "replica starts anew", "replicas start anew")}, since the leader's local log begins later by then; ${bytes(answer.remote_only_bytes)} of what was
      written meanwhile are in remote storage only.</p>`}
    ${answer.offline > 0 && html`<p class="bad">${
      counted(answer.offline, "partition has no leader", "partitions have no leader")} until then.</p>`}
    ${answer.unknown > 0 && html`<p class="muted">${counted(answer.unknown, "replica")} of unknown growth, size
      or retention ${answer.unknown === 1 ? "is" : "are"} in no sum.</p>`}
    <p class="muted">With an empty disk it copies ${bytes(off.bytes)}, or ${bytes(on.bytes)} with KIP-1023.</p>`;
}
