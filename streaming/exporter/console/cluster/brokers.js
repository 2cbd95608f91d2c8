/** Every broker in a row: what it has, and what its loss would do by each election rule. */
import { bytes, count, listed } from "../format.js";
import { isPast } from "../past/when.js";
import { Component, html } from "../ui.js";
import { OUTCOMES } from "../words.js";
import { inRacks } from "./heads.js";
import { withCoverage, withOutcome } from "./losses.js";

const STATES = { clean: "", elr: "warn", last_known: "bad", unclean: "bad", none: "bad" };

/** Partitions that have no other replica: they go with the broker, whatever is done. */
export const onlyHere = broker => (broker.leaders === 0 ? 0 : Math.min(
  (broker.one_replica_partitions ?? 0) + (broker.one_replica_accepted_partitions ?? 0),
  withOutcome(broker.loss_partitions?.kafka, ["none"])));

const COLUMNS = [
  ...Object.entries(OUTCOMES).map(([name, text]) => [text, STATES[name],
    (losses, broker) => withOutcome(losses, [name]) - (name === "none" ? onlyHere(broker) : 0)]),
  ["only replica", "", (_, broker) => onlyHere(broker)],
  ["of these cold", "warn", losses => withCoverage(losses, "cold")],
  ["not judged", "", losses => withCoverage(losses, "not_judged")
    + withCoverage(losses, "assumed")],
];

export class BrokerTable extends Component {
  /** Nothing in it depends on what is chosen. */
  shouldComponentUpdate(next) {
    return next.brokers !== this.props.brokers || next.rules !== this.props.rules;
  }

  render({ brokers, rules }) {
    const { kafka: _, ...others } = rules;
    return html`<section class="card" aria-labelledby="brokers-title">
      <h2 id="brokers-title">${isPast() ? "If this broker had been lost then"
        : "If this broker is lost now"}</h2>
      <p class="muted">Partitions that it leads, by who would lead them then: by Kafka's rule${
        Object.keys(others).length > 0 && `, and in brackets by ${listed(Object.values(others), "or")} where that differs`}.</p>
      <div class="wide" tabindex="0" role="region" aria-labelledby="brokers-title"><table class="numbers">
        <thead><tr><th scope="col">broker</th><th scope="col" class="text">rack</th>
          <th scope="col" class="text">Kafka</th><th scope="col" class="text">state</th><th scope="col">leads</th>
          <th scope="col">local log</th>
          ${COLUMNS.map(([name]) => html`<th scope="col">${name}</th>`)}
          <th scope="col">then under min ISR</th></tr></thead>
        <tbody>${inRacks(brokers).map(each => html`<${Line} key=${each.broker} broker=${each} rules=${others} />`)}</tbody>
      </table></div></section>`;
  }
}

function Line({ broker, rules }) {
  const [word, state] = stateOf(broker);
  const under = Math.max(0, broker.loss_under_min_isr_partitions - onlyHere(broker));
  return html`<tr><th scope="row">${broker.broker}</th><td class="text">${broker.rack ?? "unknown"}</td>
    <td class="text muted">${broker.kafka_version ?? "unknown"}</td>
    <td class=${`text ${state}`}>${word}</td><td>${count(broker.leaders)}</td>
    <td>${bytes(broker.local_log_bytes)}</td>
    ${COLUMNS.map(([, bad, of]) => html`<${Each} broker=${broker} of=${of} bad=${bad} rules=${rules} />`)}
    <td class=${under ? "bad" : "muted"}>${count(under)}</td></tr>`;
}

function stateOf({ fenced, listed, answered }) {
  if (fenced) return ["fenced", "bad"];
  if (!listed) return ["not listed", "bad"];
  return answered ? ["answers", "good"] : ["silent", "warn"];
}

function Each({ broker, of, bad, rules }) {
  const losses = broker.loss_partitions;
  if (!losses) return html`<td class="muted">unknown</td>`;
  const kafka = of(losses.kafka, broker);
  const others = Object.entries(rules).map(([rule, title]) => [title, of(losses[rule] ?? losses.kafka, broker)])
    .filter(([, number]) => number !== kafka);
  const title = others.map(([name, number]) => `${count(number)} by ${name}`).join(", ");
  return html`<td class=${kafka || others.length ? bad : "muted"} title=${title}>${count(kafka)}${
    others.length > 0 && ` (${others.map(([, number]) => count(number)).join(", ")})`}</td>`;
}
