/** The replicas of a topic on one broker: a square each, or counts where there are many. */
import { counted } from "../format.js";
import { go, partitionHref } from "../router.js";
import { Component, html } from "../ui.js";
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

/** A cell is drawn anew only if something in it changes: there are thousands. */
export class TopicCell extends Component {
  shouldComponentUpdate(next) {
    const { lost, about, shows } = this.props;
    return lost !== next.lost || about !== next.about || shows !== next.shows;
  }

  render({ topic, broker, rule, lost, about, mine }) {
    return html`<td class=${lost ? "cell lost" : "cell"}>
      <span class="squares" role="img" aria-label=${about} title=${mine ? undefined : about}>${
        mine ? mine.map(each => html`<${PartitionSquare} key=${each.partition} topic=${topic.topic}
            partition=${each} broker=${broker} rule=${rule} lost=${lost} />`)
          : html`<${Counts} counts=${topic.brokers[broker]} wouldLead=${leads(topic, rule, broker)} />`}
      </span></td>`;
  }
}

/** Partitions of the topic that the broker would lead more. */
const leads = (topic, rule, broker) => topic.would_lead[rule]?.[broker] ?? 0;

/** What a cell says and shows: `mine` are partitions with a square each, if there is room. */
export function contentsOf({ topic, broker, rule, room }) {
  const about = described(broker, topic.brokers[broker], leads(topic, rule, broker));
  const mine = topic.listed?.filter(each => each.replicas[broker]);
  if (!mine || mine.length > room) return { about };
  const shows = mine.map(each => [each.partition, each.replicas[broker], thenOf(each, rule)]).join();
  return { about, mine, shows };
}

/** Who leads the partition after the loss: a broker id, -1 for nobody, undefined as now. */
const thenOf = (partition, rule) => partition.then?.[rule] ?? partition.then?.kafka;

/** The squares with how many there are of each, the worst first. */
function Counts({ counts, wouldLead }) {
  const kinds = WORST_FIRST.filter(name => counts?.[name]);
  const more = kinds.slice(KINDS_SHOWN).reduce((sum, name) => sum + counts[name], 0);
  return html`${kinds.slice(0, KINDS_SHOWN).map(name => html`
      <i class=${`count sq sq-${name}`}></i>${counts[name]}`)}
    ${more > 0 && html`<span class="more">+${more}</span>`}
    ${wouldLead > 0 && html`<span class="gains">+${wouldLead}</span>`}`;
}

function PartitionSquare({ topic, partition, broker, rule, lost }) {
  const state = partition.replicas[broker];
  const then = thenOf(partition, rule);
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
  const next = thenOf(partition, rule) === broker;
  return html`<td class=${`cell ${lost ? "lost" : ""}`}>
    ${state && html`<span class="unseen">broker ${broker}: ${SQUARES[state]}${
        next ? ", would lead then" : ""}</span>
      <span class="squares" aria-hidden="true"><${PartitionSquare} topic=${topic}
        partition=${partition} broker=${broker} rule=${rule} lost=${lost} /></span>`}</td>`;
}
