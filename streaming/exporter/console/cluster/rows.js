/** Rows of the matrix: a topic, or one of its partitions. */
import { counted } from "../format.js";
import { partitionHref } from "../router.js";
import { html } from "../ui.js";
import { SEVERITIES, risk } from "../words.js";
import { PartitionCell, TopicCell, contentsOf } from "./cell.js";
import { toggle } from "./choice.js";

export function Row({ row, brokers, ...shared }) {
  if (row.partition) return html`<${PartitionRow} row=${row} brokers=${brokers} ...${shared} />`;
  if (row.topic) return html`<${TopicRow} topic=${row.topic} brokers=${brokers} ...${shared} />`;
  return html`<tr class="row"><th scope="row" class="muted">…</th>
    <td colspan=${brokers.length}></td></tr>`;
}

function TopicRow({ topic, brokers, choice, lost, room, severities }) {
  const isOpen = choice.open.includes(topic.topic);
  const nobody = topic.nobody_leads[choice.rule] ?? topic.nobody_leads.kafka ?? 0;
  return html`<tr class=${`row ${nobody || topic.offline ? "harmed" : ""}`}>
    <th scope="row">
      <button type="button" class="open" aria-expanded=${isOpen}
        onClick=${() => toggle(choice, "open", topic.topic)}>
        <span class="chevron" aria-hidden="true">${isOpen ? "▾" : "▸"}</span>
        <span class="name" title=${topic.topic}>${topic.topic}</span>
        <span class="muted">${topic.partitions}</span>
        <${Mark} topic=${topic} nobody=${nobody} severities=${severities} />
      </button></th>
    ${brokers.map(({ broker }) => html`<${TopicCell} key=${broker} topic=${topic} broker=${broker}
      rule=${choice.rule} lost=${lost.has(broker)}
      ...${contentsOf({ topic, broker, rule: choice.rule, room })} />`)}
  </tr>`;
}

/** The worst of a topic in a word: what a loss would do to it, else its worst risk. */
function Mark({ topic, nobody, severities }) {
  if (nobody) {
    return html`<span class="mark bad" title=${`${counted(nobody, "partition")} would have no leader`}>
      ${nobody} offline</span>`;
  }
  if (topic.offline) return html`<span class="mark bad">${topic.offline} no leader</span>`;
  const state = SEVERITIES[severities[topic.risk]];
  if (!topic.risk || state === "info") return null;
  return html`<span class=${`mark ${state}`} title=${`${risk(topic.risk)}: ${
    counted(topic.at_risk, "partition")} at risk`}>${topic.at_risk}!</span>`;
}

function PartitionRow({ row, brokers, choice, lost, severities }) {
  const { topic, partition } = row;
  const then = partition.then?.[choice.rule] ?? partition.then?.kafka;
  const state = SEVERITIES[severities[partition.risk]];
  return html`<tr class=${`row partition ${then === -1 || partition.leader === -1 ? "harmed" : ""}`}>
    <th scope="row"><a href=${partitionHref(topic.topic, partition.partition)}>
      <span class="unseen">${topic.topic}-</span>${partition.partition}</a>
      ${partition.risk && html`<span class=${`mark ${state}`}>${risk(partition.risk)}</span>`}</th>
    ${brokers.map(({ broker }) => html`<${PartitionCell} key=${broker} topic=${topic.topic}
      partition=${partition} broker=${broker} rule=${choice.rule} lost=${lost.has(broker)} />`)}
  </tr>`;
}
