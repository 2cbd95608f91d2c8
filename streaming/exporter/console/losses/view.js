/** What the loss of each rack and of each pair of brokers would do, the worst first. */
import { url } from "../api.js";
import { count, counted, listed } from "../format.js";
import { Failed, Waiting } from "../parts/failed.js";
import { isPast } from "../past/when.js";
import { Place } from "../plans/changes.js";
import { Poll } from "../poll.js";
import { href } from "../router.js";
import { html } from "../ui.js";
import { TierOutage } from "./tier_outage.js";

const EVERY_MS = 15_000;
const SHOWN = 20;

export function LossesView() {
  return html`<${Poll} url=${url("whatif/pairs", { limit: SHOWN })} every=${EVERY_MS}>
    ${({ answer, error }) => html`
      <section class="card" aria-labelledby="title"><h1 id="title">If two brokers or a rack were lost</h1>
        <${Failed} error=${error} />
        ${answer ? html`<${Headline} answer=${answer} />` : !error && html`<${Waiting} what="Asking" />`}
      </section>
      ${answer && html`
        <${Losses} id="racks" title="Racks" losses=${answer.racks} total=${answer.racks_total}
          empty="No broker names its rack (broker.rack)." />
        <${Losses} id="pairs" title="Two brokers" losses=${answer.pairs} total=${answer.pairs_total}
          empty="There is one broker." />
        <${Losses} id="more" title="A rack and one more broker" losses=${answer.racks_and_one}
          total=${answer.racks_and_one_total} empty="No broker is in another rack." />`}`}<//>
    <section class="card" aria-labelledby="tier"><h2 id="tier">If remote storage ${isPast() ? "had been away then" : "were away from now on"}</h2><${TierOutage} /></section>
    <section class="card" aria-labelledby="place"><h2 id="place">Replicas to move</h2><${Place} /></section>`;
}

/** How many pairs hurt more than their brokers do alone: these share what matters. */
function Headline({ answer: { pairs_total: pairs, pairs_offline: hurt } }) {
  if (!pairs) return null;
  return html`<p>${hurt ? `${count(hurt)} of ${counted(pairs, "pair")} of brokers take partitions offline that neither takes offline alone.`
    : "No pair of brokers takes a partition offline that neither takes offline alone."}</p>
    <p class="muted">Each number is that of losing these brokers in the view Cluster, by Kafka's rule.</p>`;
}

function Losses({ id, title, losses, total, empty }) {
  return html`<section class="card" aria-labelledby=${id}><h2 id=${id}>${title}</h2>
    ${!losses.length ? html`<p class="muted">${empty}</p>` : html`
      ${total > losses.length && html`<p class="muted">The worst ${losses.length} of ${count(total)}.</p>`}
      <div class="wide" tabindex="0" role="region" aria-labelledby=${id}><table class="numbers">
        <thead><tr><th scope="col">lost</th><th scope="col">offline</th>
          <th scope="col">not offline without both</th><th scope="col">under min ISR</th>
          <th scope="col">records lost</th><th scope="col">led from outside the ISR</th>
          <th scope="col">cold leader</th></tr></thead>
        <tbody>${losses.map(each => html`<${Line} key=${keyOf(each)} loss=${each} />`)}</tbody>
      </table></div>`}
  </section>`;
}

const keyOf = ({ rack, brokers }) => `${rack} ${brokers.join(" ")}`;

function Line({ loss }) {
  const { rack, brokers, offline_together: together, by_rule: { kafka } } = loss;
  const one = rack !== null && together !== null ? brokers[brokers.length - 1] : null;
  const name = rack === null ? `brokers ${listed(brokers)}`
    : one === null ? `rack ${rack} (${listed(brokers)})` : `rack ${rack} and broker ${one}`;
  const to = href([], { "lose-rack": rack === null ? [] : [rack],
    lose: rack === null ? brokers : one === null ? [] : [one] });
  const cell = (value, state) => html`<td class=${value ? state : "muted"}>${count(value)}</td>`;
  const lost = loss.records_unknown ? `${count(loss.records_lost)} or more` : count(loss.records_lost);
  return html`<tr><th scope="row"><a href=${to}>${name}</a>${
      loss.elects === false && html` <span class="pill bad">no quorum</span>`}</th>
    ${cell(kafka.offline, "bad")}
    ${together === null ? html`<td class="muted">-</td>` : cell(together, "bad")}
    ${cell(loss.under_min_isr, "warn")}
    <td class=${loss.records_lost || loss.records_unknown ? "bad" : "muted"}>${lost}</td>
    ${cell(kafka.outside_isr, "warn")}${cell(kafka.cold, "warn")}</tr>`;
}
