/** Rows of the matrix: a topic, or one of its partitions. */
import { counted } from "../format.js";
import { partitionHref } from "../router.js";
import { Component, html } from "../ui.js";
import { SEVERITIES, inWords } from "../words.js";
import { PartitionCell, TopicCell, contentsOf } from "./cell.js";
import { toggle } from "./choice.js";

/** Props: `row` of `Pages`, `ids` of the brokers, `choice`, `lost` ids, `severities`, `room`, `width`. */
export function Row({ row, choice, ids, ...shared }) {
  if (row.partition) return html`<${PartitionRow} row=${row} rule=${choice.rule} ids=${ids} ...${shared} />`;
  if (row.topic) {
    return html`<${TopicRow} topic=${row.topic} rule=${choice.rule} ids=${ids} ...${shared}
      isOpen=${choice.open.includes(row.topic.topic)} />`;
  }
  return html`<tr class="row"><th scope="row" class="muted">…</th><td colspan=${ids.length}></td></tr>`;
}

/** A row is drawn anew only if something in it may have changed: the page is drawn often. */
class TopicRow extends Component {
  shouldComponentUpdate(next) {
    const named = ["topic", "rule", "ids", "severities", "room", "width", "isOpen"];
    return named.some(name => next[name] !== this.props[name])
      // Squares of partitions fade; the others only have a column that is shaded.
      || (next.topic.listed !== null && next.lost !== this.props.lost);
  }

  render({ topic, rule, ids, lost, room, width, severities, isOpen }) {
    const contents = contentsOf(topic, rule, room);
    const nobody = topic.nobody_leads[rule] ?? topic.nobody_leads.kafka ?? 0;
    return html`<tr class=${`row ${nobody || topic.offline ? "harmed" : ""}`}>
      <th scope="row">
        <button type="button" class="open" aria-expanded=${isOpen}
          onClick=${() => toggle("open", topic.topic)}>
          <span class="chevron" aria-hidden="true">${isOpen ? "▾" : "▸"}</span>
          <span class="name" title=${topic.topic}>${topic.topic}</span>
          <span class="muted">${topic.partitions}</span>
          <${Mark} topic=${topic} nobody=${nobody} severities=${severities} />
        </button></th>
      ${ids.map(broker => html`<${TopicCell} key=${broker} topic=${topic} broker=${broker}
        rule=${rule} lost=${lost.includes(broker)} width=${width} contents=${contents(broker)} />`)}
    </tr>`;
  }
}

/** The worst of a topic in a word: what a loss would do to it, else its worst risk. */
function Mark({ topic, nobody, severities }) {
  if (nobody) {
    return html`<span class="mark bad" title=${`${counted(nobody, "partition")} would have no leader`}>
      ${nobody}<span class="word"> offline</span></span>`;
  }
  if (topic.offline) return html`<span class="mark bad" title=${`${counted(topic.offline, "partition")} without a leader`}>
    ${topic.offline}<span class="word"> no leader</span></span>`;
  const state = SEVERITIES[severities[topic.risk]];
  if (!topic.risk || state === "info") return null;
  return html`<span class=${`mark ${state}`} title=${`${inWords(topic.risk)}: ${
    counted(topic.at_risk, "partition")} at risk`}>${topic.at_risk}!</span>`;
}

function PartitionRow({ row, rule, ids, lost, severities }) {
  const { topic, partition } = row;
  const then = partition.then?.[rule] ?? partition.then?.kafka;
  const state = SEVERITIES[severities[partition.risk]];
  return html`<tr class=${`row partition ${then === -1 || partition.leader === -1 ? "harmed" : ""}`}>
    <th scope="row"><a href=${partitionHref(topic.topic, partition.partition)}>
      <span class="unseen">${topic.topic}-</span>${partition.partition}</a>
      ${partition.risk && html`<span class=${`mark ${state}`}>${inWords(partition.risk)}</span>`}</th>
    ${ids.map(broker => html`<${PartitionCell} key=${broker} topic=${topic.topic}
      partition=${partition} broker=${broker} rule=${rule} lost=${lost.includes(broker)} />`)}
  </tr>`;
}
