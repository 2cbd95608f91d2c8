/** The heads of the matrix: racks, and the brokers in them; a click loses them. */
import { bytes, counted } from "../format.js";
import { html } from "../ui.js";
import { toggle } from "./choice.js";

const NARROW_PX = 92; // narrower columns have the broker's number, and its state as a mark
const DIGIT_PX = 8.5;

/** Brokers by rack, then by id; those without a rack last. */
export function inRacks(brokers) {
  const rack = each => each.rack ?? "\uffff";
  return [...brokers].sort((a, b) => (rack(a) < rack(b) ? -1 : rack(a) > rack(b) ? 1
    : a.broker - b.broker));
}

function racksOf(brokers) {
  const racks = [];
  for (const { rack } of brokers) {
    if (racks.length && racks.at(-1).rack === rack) racks.at(-1).size += 1;
    else racks.push({ rack, size: 1 });
  }
  return racks;
}

export function Heads({ brokers, choice, lost, width }) {
  const racks = racksOf(brokers);
  const narrow = width < NARROW_PX;
  return html`<thead class=${narrow ? "narrow" : ""}>
    ${racks.some(each => each.rack) && html`<tr class="racks"><td></td>
      ${racks.map(({ rack, size }) => html`<th scope="colgroup" colspan=${size}>
        ${rack ? html`<button type="button" class="rack" aria-pressed=${choice.racks.includes(rack)}
            onClick=${() => toggle("racks", rack)} title="Lose the rack">${rack}</button>`
          : html`<span class="muted">no rack known</span>`}</th>`)}</tr>`}
    <tr class="brokers"><td></td>
      ${brokers.map(each => html`<th scope="col" key=${each.broker}>
        <${BrokerHead} broker=${each} choice=${choice} lost=${lost} narrow=${narrow}
          long=${String(each.broker).length * DIGIT_PX > width} /></th>`)}</tr>
  </thead>`;
}

/** Whether it can be lost; what is not known is not called so. */
export function verdictOf(broker) {
  if (broker.fenced === true || broker.listed === false) return ["down", "bad"];
  if (!broker.answered) return ["silent", "warn"];
  const harmed = broker.loss_harmed_partitions;
  if (harmed === null || harmed === undefined) return ["unknown", "unknown"];
  return harmed ? ["cannot be lost", "bad"] : ["can be lost", "good"];
}

function BrokerHead({ broker, choice, lost, narrow, long }) {
  const isLost = lost.includes(broker.broker);
  const [word, state] = isLost ? ["lost?", "bad"] : verdictOf(broker);
  const inRack = choice.racks.includes(broker.rack);
  const about = `leads ${broker.leaders ?? 0} · ${bytes(broker.local_log_bytes)}`;
  const label = `Broker ${broker.broker}, ${isLost ? "taken as lost" : word}, leads ${counted(broker.leaders ?? 0, "partition")}`;
  return html`<button type="button" class=${`broker ${state} ${isLost ? "chosen" : ""} ${
      long ? "long" : ""}`}
    aria-pressed=${isLost} aria-label=${label} disabled=${inRack} title=${`${label} · ${about}`}
    onClick=${() => toggle("brokers", broker.broker)}>
    <b>${broker.broker}</b>
    <span class=${`pill ${state}`}>${narrow ? "" : word}</span>
    ${!narrow && html`<small>${about}</small>`}</button>`;
}
