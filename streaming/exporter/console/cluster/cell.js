/** The replicas of a topic on one broker: a square each, or counts where there are many. */
import { counted } from "../format.js";
import { go, partitionHref } from "../router.js";
import { Component, html } from "../ui.js";
import { SQUARES, WORST_FIRST } from "../words.js";
import { Square } from "./square.js";

const KINDS_SHOWN = 3;
const SQUARE_PX = 18; // with the space behind it
const DIGIT_PX = 8.5;
const GAP_PX = 8;
const MORE_PX = 26;
const BARE_PX = 48; // narrower columns have no room for numbers

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
    const { lost, width, contents } = this.props;
    return width !== next.width || contents.about !== next.contents.about
      || contents.shows !== next.contents.shows
      || (next.contents.mine !== undefined && lost !== next.lost);
  }

  render({ topic, broker, rule, lost, width, contents: { about, mine } }) {
    return html`<td>
      <span class="squares" role="img" aria-label=${about} title=${mine ? undefined : about}>${
        mine ? mine.map(each => html`<${PartitionSquare} key=${each.partition} topic=${topic.topic}
            partition=${each} broker=${broker} rule=${rule} lost=${lost} />`)
          : counts(topic.brokers[broker] ?? {}, leads(topic, rule, broker), width)}
      </span></td>`;
  }
}

/** Partitions of the topic that the broker would lead more. */
const leads = (topic, rule, broker) => topic.would_lead[rule]?.[broker] ?? 0;

const contentsKept = new WeakMap();

/**
 * What the cells of a topic say and show, by broker: `mine` are partitions with a square each, if
 * there is `room` for so many. Made once of each answer: a row is drawn many times.
 */
export function contentsOf(topic, rule, room) {
  const of = `${rule} ${room}`;
  let kept = contentsKept.get(topic);
  if (kept?.of !== of) contentsKept.set(topic, kept = { of, byBroker: new Map() });
  return broker => {
    let contents = kept.byBroker.get(broker);
    if (!contents) kept.byBroker.set(broker, contents = made(topic, broker, rule, room));
    return contents;
  };
}

function made(topic, broker, rule, room) {
  const about = described(broker, topic.brokers[broker], leads(topic, rule, broker));
  const mine = topic.listed?.filter(each => each.replicas[broker]);
  if (!mine || mine.length > room) return { about };
  const shows = mine.map(each => [each.partition, each.replicas[broker], thenOf(each, rule)]).join();
  return { about, mine, shows };
}

/** Who leads the partition after the loss: a broker id, -1 for nobody, undefined as now. */
const thenOf = (partition, rule) => partition.then?.[rule] ?? partition.then?.kafka;

const textPx = text => GAP_PX + DIGIT_PX * String(text).length;

/** How many kinds fit with their numbers into that many pixels. */
function fitting(kinds, held, px) {
  const ends = kinds.slice(0, KINDS_SHOWN).map(name => px -= SQUARE_PX + textPx(held[name]));
  return ends.filter(left => left >= 0).length;
}

/** The squares with how many there are of each, the worst first; in narrow columns the worst alone. */
function counts(held, wouldLead, width) {
  const kinds = WORST_FIRST.filter(name => held[name]);
  if (!kinds.length) return null;
  const gains = wouldLead > 0 && `+${wouldLead}`;
  const px = width - GAP_PX - (gains ? textPx(gains) : 0);
  let shown = width < BARE_PX ? 0 : fitting(kinds, held, px);
  if (!shown) return html`<${Square} state=${kinds[0]} next=${wouldLead > 0} title="" />`;
  const beside = shown < kinds.length && fitting(kinds, held, px - MORE_PX); // with the others' number
  if (beside) shown = beside;
  const more = beside && kinds.slice(shown).reduce((sum, name) => sum + held[name], 0);
  return html`${kinds.slice(0, shown).map(name => html`
      <i class=${`count sq sq-${name}`}></i>${held[name]}`)}
    ${more > 0 && html`<span class="more">+${more}</span>`}
    ${gains && html`<span class="gains">${gains}</span>`}`;
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
  return html`<td>
    ${state && html`<span class="unseen">broker ${broker}: ${SQUARES[state]}${
        next ? ", would lead then" : ""}</span>
      <span class="squares" aria-hidden="true"><${PartitionSquare} topic=${topic}
        partition=${partition} broker=${broker} rule=${rule} lost=${lost} /></span>`}</td>`;
}
