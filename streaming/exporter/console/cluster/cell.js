/** The replicas of a topic on one broker: a square each, or counts where there are many. */
import { counted } from "../format.js";
import { go, partitionHref } from "../router.js";
import { html } from "../ui.js";
import { SQUARES, WORST_FIRST } from "../words.js";
import { Square } from "./square.js";

const KINDS_SHOWN = 3;

/** What `counts` says, for those who hear it. */
function described(broker, counts, wouldLead) {
  const kinds = WORST_FIRST.filter(name => counts?.[name]).map(
    name => `${counts[name]} ${SQUARES[name]}`);
  if (wouldLead) kinds.push(`would lead ${counted(wouldLead, "partition")} then`);
  return `broker ${broker}: ${kinds.join(", ") || "no replica"}`;
}

export function TopicCell({ topic, broker, rule, lost, room }) {
  const counts = topic.brokers[broker];
  const wouldLead = topic.would_lead[rule]?.[broker] ?? 0;
  const label = described(broker, counts, wouldLead);
  const mine = topic.listed?.filter(each => each.replicas[broker]);
  const squares = mine && mine.length <= room;
  return html`<td class=${`cell ${lost ? "lost" : ""}`} title=${squares ? undefined : label}>
    <span class="unseen">${label}</span>
    <span class="squares" aria-hidden="true">
      ${squares ? mine.map(each => html`<${PartitionSquare} key=${each.partition}
          topic=${topic.topic} partition=${each} broker=${broker} rule=${rule} lost=${lost} />`)
        : html`<${Counts} counts=${counts} wouldLead=${wouldLead} />`}
    </span></td>`;
}

/** The squares with how many there are of each, the worst first. */
function Counts({ counts, wouldLead }) {
  const kinds = WORST_FIRST.filter(name => counts?.[name]);
  const more = kinds.slice(KINDS_SHOWN).reduce((sum, name) => sum + counts[name], 0);
  return html`${kinds.slice(0, KINDS_SHOWN).map(name => html`
      <span class="count"><${Square} state=${name} />${counts[name]}</span>`)}
    ${more > 0 && html`<span class="count">+${more}</span>`}
    ${wouldLead > 0 && html`<span class="count gains">+${wouldLead}</span>`}`;
}

function PartitionSquare({ topic, partition, broker, rule, lost }) {
  const state = partition.replicas[broker];
  const then = partition.then?.[rule] ?? partition.then?.kafka;
  const next = then === broker;
  const name = `${topic}-${partition.partition}`;
  const title = `${name} on broker ${broker}: ${SQUARES[state]}${next ? "; would lead then" : ""}`;
  return html`<span class="hit" onClick=${() => go(partitionHref(topic, partition.partition))}>
    <${Square} state=${state} next=${next} harmed=${then === -1} lost=${lost} title=${title} />
  </span>`;
}

/** The replica of one partition. */
export function PartitionCell({ topic, partition, broker, rule, lost }) {
  const state = partition.replicas[broker];
  const next = (partition.then?.[rule] ?? partition.then?.kafka) === broker;
  return html`<td class=${`cell ${lost ? "lost" : ""}`}>
    ${state && html`<span class="unseen">broker ${broker}: ${SQUARES[state]}${
        next ? ", would lead then" : ""}</span>
      <span class="squares" aria-hidden="true"><${PartitionSquare} topic=${topic}
        partition=${partition} broker=${broker} rule=${rule} lost=${lost} /></span>`}</td>`;
}
