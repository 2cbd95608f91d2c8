/** What narrows the list of partitions; all of it is in the URL. */
import { go, href } from "../router.js";
import { html } from "../ui.js";
import { inWords, REDUNDANCIES } from "../words.js";

const NAMES = ["search", "topic", "broker", "rack", "risk", "redundancy", "at_risk"];

/** The filters of a route, as parameters of the API. */
export const filtersOf = ({ query }) =>
  Object.fromEntries(NAMES.map(name => [name, query.get(name) ?? ""]));

export function Filters({ filters, risks, brokers }) {
  const change = (name, value, replace) =>
    go(href(["partitions"], { ...filters, [name]: value }), { replace });
  const racks = [...new Set(brokers.map(each => each.rack).filter(Boolean))].sort();
  const open = Object.entries(risks).filter(([name, { partitions }]) =>
    partitions || name === filters.risk);
  const choose = (name, label, any, options) => html`<label>${label}
    <select value=${filters[name]} onChange=${event => change(name, event.target.value)}>
      <option value="">${any}</option>
      ${options.map(([value, text]) => html`<option value=${value}>${text}</option>`)}
    </select></label>`;
  return html`<form class="filters" onSubmit=${event => event.preventDefault()}>
    <label>name contains <input type="search" value=${filters.search}
      onInput=${event => change("search", event.target.value.trim(), true)} /></label>
    ${choose("broker", "replica on broker", "any", brokers.map(each => [
      String(each.broker), String(each.broker)]))}
    ${racks.length > 0 && choose("rack", "replica in rack", "any", racks.map(each => [each, each]))}
    ${choose("risk", "risk", "any or none", open.map(([name, { partitions }]) => [
      name, `${inWords(name)} (${partitions ?? "unknown"})`]))}
    ${choose("redundancy", "redundancy", "any", Object.entries(REDUNDANCIES))}
    <label class="tick"><input type="checkbox" checked=${filters.at_risk === "true"}
      onChange=${event => change("at_risk", event.target.checked ? "true" : "")} /> at risk</label>
    ${filters.topic && html`<span class="pill">topic ${filters.topic}
      <button type="button" class="quiet" aria-label="Any topic"
        onClick=${() => change("topic", "")}>×</button></span>`}
  </form>`;
}
