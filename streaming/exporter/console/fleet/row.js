/** A cluster as a row, and clusters with nothing to say as names. */
import { UNKNOWN } from "../format.js";
import { html } from "../ui.js";
import {
  brokerLoss, diskFull, freshness, kafkaVersion, rackLoss, risksOf, sizeOf, tierFull, trackRecord,
  withShortTimes,
} from "./words.js";

const OF_RISKS = { critical: "bad", warning: "warn", info: "info" };

/** Its console. */
const to = name => `clusters/${encodeURIComponent(name)}/`;

/** Props: `row`; `without`, the label that its group has said. */
export function Row({ row, without }) {
  const about = [sizeOf(row), ...Object.values(row.labels)].join(" · ");
  return html`<tr role="row" class=${row.up ? "" : row.risks ? "old" : "old blank"}>
    <th scope="row" role="rowheader"><${Mark} severity=${row.severity} />
      <a class="to-cluster" href=${to(row.cluster)} title=${about}>${row.cluster}</a><${Labels} labels=${row.labels} without=${without} /></th>
    <td role="cell" class="said" title=${row.sentence}><span>${withShortTimes(row)}</span></td>
    <td role="cell" class=${`of-risks ${stateOfRisks(row)}`}><${Risks} row=${row} /></td>
    <${Cell} name="broker lost" of=${brokerLoss(row)} />
    <${Cell} name="rack lost" of=${rackLoss(row)} />
    <${Cell} name="disk full in" of=${diskFull(row)} />
    <${Cell} name="if tier is away" of=${tierFull(row)} />
    <${Cell} name="Kafka" of=${kafkaVersion(row)} />
    <${Cell} name="age" of=${freshness(row)} />
    <${Cell} name="leader changes" of=${trackRecord(row)} />
  </tr>`;
}

/** `name` stands before it where rows have no heads, on a phone. */
const Cell = ({ name, of: [text, state, more] }) => html`<td role="cell" data-name=${name} title=${more}
  class=${`${state} ${name === "age" ? "age" : ""}`}>${text}</td>`;

const Mark = ({ severity }) => html`<span class=${`mark-of ${severity}`}>
  <span class="unseen">${severity}: </span></span>`;

function Labels({ labels, without }) {
  const values = Object.keys(labels).filter(name => name !== without).map(name => labels[name]);
  return values.length > 0 && html` <span class="labels">${values.join(" ")}</span>`;
}

function stateOfRisks({ risks }) {
  if (risks === null) return "unknown";
  return Object.values(risks).some(open => Object.keys(open).length) ? "" : "muted";
}

function Risks({ row }) {
  if (row.risks === null) return UNKNOWN;
  const open = Object.entries(OF_RISKS)
    .map(([severity, state]) => [severity, state, ...risksOf(row, severity)])
    .filter(([, , number]) => number);
  if (!open.length) return "none";
  return open.map(([severity, state, number, names]) => html`<span key=${severity} class=${`pill ${state}`}
    title=${`${severity}: ${names}`}>${number}<span class="unseen"> ${severity}: ${names}</span></span>`);
}

export function Quiet({ clusters, isAlone }) {
  return html`<ul class="names" aria-label=${isAlone ? "Nothing to say" : "Nothing to say of the others"}>
    ${clusters.map(({ cluster, severity, sentence }) => html`<li key=${cluster}><${Mark} severity=${severity} /><a
      class="to-cluster" href=${to(cluster)} title=${sentence}>${cluster}</a></li>`)}</ul>`;
}
