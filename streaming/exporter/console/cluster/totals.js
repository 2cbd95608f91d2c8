/** The cluster in six numbers; each leads to the partitions that it counts. */
import { count } from "../format.js";
import { href } from "../router.js";
import { Grid } from "../start/grid.js";
import { html } from "../ui.js";

/** {judged: all, some or none of the replicas; text} of what the thresholds judge. */
export function judgedOf(summary) {
  const open = summary.replicas_coverage_not_judged;
  if (!open) return { all: true };
  const none = open === summary.replicas;
  return { none, text: none ? "No threshold is set" : `${count(open)} of ${
    count(summary.replicas)} replicas have no threshold` };
}

export function Totals({ summary }) {
  const { none } = judgedOf(summary);
  const to = risk => href(["partitions"], { risk });
  const cold = number => (none ? null : number);
  return html`<dl class="totals">${[
    ["partitions", summary.partitions, "", href(["partitions"])],
    ["at risk", summary.at_risk, "warn", href(["partitions"], { at_risk: "true" })],
    ["offline", summary.partitions_offline, "bad", to("partition_offline")],
    ["under min ISR", summary.partitions_under_min_isr, "bad", to("under_min_isr")],
    ["cold leaders", cold(summary.partitions_leader_cold), "warn", to("leader_cold")],
    ["cold replicas", cold(summary.cold_replicas), "warn", to("next_leader_cold")],
  ].map(([name, value, state, link]) => html`<div>
    <dt>${name}</dt><dd class=${value ? state : "muted"}>
      <a href=${link}>${none && name.startsWith("cold") ? "not judged" : count(value)}</a></dd></div>`)}
  </dl>`;
}

/** Without a threshold nothing is warm or cold: how to set one. */
export function NotJudged({ summary }) {
  const { all, text } = judgedOf(summary);
  return !all && html`<div class="note warn-note"><p>${text}, so nothing says whether they are warm or cold.
      Set <code>local_log_ms</code> or <code>local_log_bytes</code> under <code>[eligibility]</code> in${" "}
      <code>twin.toml</code>.</p>
    <${Grid} replicas=${summary.replicas} /></div>`;
}
