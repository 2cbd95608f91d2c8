/** The next leader under both rules, and why it is that one. */
import { html } from "../ui.js";
import { COVERAGES } from "../words.js";
import { NextLeader } from "./next_leader.js";

export function Next({ partition }) {
  const { next_leader: kafka, next_leader_kip1303: kip } = partition;
  return html`<dl class="next">
      <div><dt>by Kafka's rule</dt><dd><${NextLeader} next=${kafka} /></dd>
        <dd class="why">${why(partition, kafka)}</dd></div>
      ${kip && html`<div><dt>by KIP-1303's</dt><dd><${NextLeader} next=${kip} /></dd>
        <dd class="why">${whyKip1303(partition)}</dd></div>`}
    </dl>`;
}

/** Kafka takes the first of the assignment that is in sync and not fenced. */
function why({ replicas, leader }, { leader: next, outcome }) {
  if (outcome === null) return "Too little is known of the partition.";
  const others = replicas.filter(each => each.broker !== leader);
  if (outcome === "none") {
    return others.length ? "No other replica is in sync and online, and unclean elections are off."
      : "It has one replica.";
  }
  if (outcome === "elr") return "No other replica is in sync; this one is eligible (KIP-966).";
  if (outcome === "last_known") {
    return "ISR and ELR would be empty, so the last known leader leads: records may be lost.";
  }
  if (outcome === "unclean") {
    return "No other replica is in sync, and unclean elections are on: records may be lost.";
  }
  const order = others.map(each => each.broker);
  const passed = others.slice(0, order.indexOf(next)).map(each => each.broker);
  return `It is the first in the assignment (${replicas.map(each => each.broker).join(" ")}) that is `
    + `in sync and online, after the leader${passed.length ? `; ${passed.join(" and ")} cannot lead` : ""}.`;
}

function whyKip1303(partition) {
  const { next_leader: kafka, next_leader_kip1303: kip, replicas } = partition;
  if (kip.outcome === null) return "Too little is known of the partition.";
  if (kip.leader === kafka.leader) {
    return kip.coverage === "cold" ? "No warm replica could lead either." : "The same replica: nothing changes.";
  }
  const coverage = replicas.find(each => each.broker === kafka.leader)?.coverage;
  return `${kafka.leader} is ${COVERAGES[coverage] ?? "not warm"}: replicas with enough local log come first.`;
}
