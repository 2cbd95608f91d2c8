/** The next leader under each election rule, and why it is that one. */
import { broker, counted } from "../format.js";
import { Time } from "../parts/time.js";
import { html } from "../ui.js";
import { COVERAGES } from "../words.js";
import { NextLeader } from "./next_leader.js";

export function Next({ partition, rules }) {
  const { kafka, ...others } = partition.next_leaders;
  return html`<dl class="next">
      <div><dt>by Kafka's rule</dt><dd><${NextLeader} next=${kafka} />${
        partition.silent_successor && html`, <span class="bad">does not answer</span>`}</dd>
        <dd class="why">${whySilent(partition.silent_successor) || why(partition, kafka)}</dd></div>
      ${Object.entries(others).map(([rule, next]) => html`
        <div key=${rule}><dt>by ${rules[rule] ?? rule}</dt><dd><${NextLeader} next=${next} /></dd>
          <dd class="why">${whyOther(partition, rule)}</dd></div>`)}
    </dl>`;
}

/** Until Kafka fences a broker it may elect it; then it elects again. */
function whySilent(successor) {
  if (!successor) return "";
  const { since_ms: since, then } = successor;
  const when = since === null ? "It has not answered yet."
    : html`Its last answer is of <${Time} ms=${since} />.`;
  return html`${when}${" "}Kafka may elect it until it is fenced; then ${
    then < 0 ? "nobody leads" : `${broker(then)} leads`}.`;
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

function whyOther({ next_leaders: { kafka, ...others }, standing, replicas }, rule) {
  const other = others[rule];
  if (other.outcome === null) return "Too little is known of the partition.";
  const more = standing[rule].in_sync - standing.kafka.in_sync;
  if (more > 0) {
    return `${counted(more, "replica")} that left the ISR would be in sync by this rule.`;
  }
  if (other.leader === kafka.leader) {
    return rule === "kip1303" && other.coverage === "cold" ? "No warm replica could lead either."
      : "The same replica: nothing changes.";
  }
  if (rule !== "kip1303") return "This rule tries candidates in another order.";
  const coverage = replicas.find(each => each.broker === kafka.leader)?.coverage;
  return `${kafka.leader} is ${COVERAGES[coverage] ?? "not warm"}: replicas with enough local log come first.`;
}
