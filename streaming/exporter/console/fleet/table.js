/** The table of clusters: a row each, and below the rows of a group those with nothing to say. */
import { count, counted } from "../format.js";
import { html } from "../ui.js";
import { bySeverity, grouped, isQuiet } from "./choice.js";
import { Quiet, Row } from "./row.js";
import { STATES } from "./words.js";

const HEADS = [
  ["cluster", "name"], ["what is worst", "said"], ["risks", "risks"], ["if a broker is lost", "broker"],
  ["if a rack is lost", "rack"], ["disk full in", "soon"], ["if tier is away", "soon"],
  ["Kafka", "kafka"], ["age", "age"], ["leader changes", "track"],
];

export function FleetTable({ clusters, group, allRows }) {
  return html`<table class=${`list clusters ${allRows ? "" : "dense"}`} role="table">
    <caption class="unseen">Clusters, the worst first</caption>
    <colgroup>${HEADS.map(([, kind]) => html`<col class=${`of-${kind}`} />`)}</colgroup>
    <thead role="rowgroup"><tr role="row">${HEADS.map(([text]) => html`
      <th scope="col" role="columnheader">${text}</th>`)}</tr></thead>
    ${grouped(clusters, group).map(([value, those]) => html`<${Group} key=${value} label=${group} value=${value}
      clusters=${those} allRows=${allRows} />`)}
  </table>`;
}

function Group({ label, value, clusters, allRows }) {
  const rows = allRows ? clusters : clusters.filter(each => !isQuiet(each));
  const quiet = allRows ? [] : clusters.filter(isQuiet);
  return html`<tbody role="rowgroup">
    ${label && html`<tr class="group" role="row"><th scope="rowgroup" role="rowheader" colspan=${HEADS.length}>
      ${value || `no ${label}`} <span class="muted">${summaryOf(clusters)}</span></th></tr>`}
    ${rows.map(each => html`<${Row} key=${each.cluster} row=${each} without=${label} />`)}
    ${quiet.length > 0 && html`<tr class="quiet" role="row"><td role="cell" colspan=${HEADS.length}>
      <${Quiet} clusters=${quiet} isAlone=${!rows.length} /></td></tr>`}
  </tbody>`;
}

/** "62 clusters: 2 critical, 60 ok" */
function summaryOf(clusters) {
  const counts = bySeverity(clusters);
  const parts = Object.keys(STATES).filter(each => counts[each]).map(each => `${count(counts[each])} ${each}`);
  return `${counted(clusters.length, "cluster")}: ${parts.join(", ")}`;
}
