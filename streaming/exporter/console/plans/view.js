/** What may be restarted, in which order, and the plans that would help. It changes nothing. */
import { url } from "../api.js";
import { isPast } from "../past/when.js";
import { href } from "../router.js";
import { html } from "../ui.js";
import { Demote, Order, Restore } from "./changes.js";
import { Roll } from "./roll.js";

/** {racks, broker, preferred} of a route. */
function choiceOf({ query }) {
  const broker = query.get("demote") ?? "";
  return {
    racks: query.get("racks") === "true", preferred: query.get("preferred") === "true",
    broker: /^\d+$/.test(broker) ? broker : "",
  };
}

const hrefOf = ({ racks, broker, preferred }) => href(["plans"], {
  racks: racks ? "true" : "", demote: broker, preferred: preferred ? "true" : "",
});

export function PlansView({ route, pulse }) {
  const choice = choiceOf(route);
  const with_ = change => hrefOf({ ...choice, ...change });
  const brokers = (pulse.brokers ?? []).map(each => each.broker);
  return html`
    <section class="card" aria-labelledby="title"><h1 id="title">Which broker ${
        isPast() ? "could be restarted then" : "may be restarted now"}?</h1>
      <${Roll} asked=${url("plans/roll", { racks: choice.racks ? "true" : "" })} racks=${choice.racks}
        to=${racks => with_({ racks })} /></section>
    <section class="card" aria-labelledby="order-title"><h2 id="order-title">Warm replicas before cold
      ones</h2><${Order} preferred=${choice.preferred} to=${preferred => with_({ preferred })} /></section>
    <section class="card" aria-labelledby="demote-title"><h2 id="demote-title">Leaderships away from a
      broker</h2><${Demote} broker=${choice.broker} brokers=${brokers}
        to=${broker => with_({ broker })} /></section>
    ${!isPast() && html`<section class="card" aria-labelledby="restore-title">
      <h2 id="restore-title">Back to what was</h2><${Restore} /></section>`}`;
}
