/** Changes of the cluster as they come, each prediction with what Kafka then did. */
import { askedAbout } from "../past/when.js";
import { go, href } from "../router.js";
import { html } from "../ui.js";
import { inWords } from "../words.js";
import { Events } from "./events.js";

const SHOWN = 300;

const filtersOf = ({ query }) => ({
  kind: query.get("kind") ?? "", text: query.get("text") ?? "",
});

/** Whether an event is of that kind and says that. */
export function wantedBy({ kind, text }) {
  const part = text.toLowerCase();
  return event => (!kind || event.kind === kind) && event.text.toLowerCase().includes(part);
}

export function TimelineView({ route }) {
  const filters = filtersOf(route);
  return html`<section class="card" aria-labelledby="title"><h1 id="title">Timeline</h1>
    <${Events} key=${askedAbout()} wanted=${wantedBy(filters)} most=${SHOWN}>
      ${events => html`<${Filters} filters=${filters} events=${events} />`}<//></section>`;
}

function Filters({ filters, events }) {
  const kinds = [...new Set([...events.map(each => each.kind), filters.kind])].filter(Boolean).sort();
  const change = (name, value, replace) =>
    go(href(["timeline"], { ...filters, [name]: value }), { replace });
  return html`<form class="filters" onSubmit=${event => event.preventDefault()}>
    <label>says <input type="search" value=${filters.text}
      onInput=${event => change("text", event.target.value, true)} /></label>
    <label>kind <select value=${filters.kind}
      onChange=${event => change("kind", event.target.value)}>
      <option value="">any</option>
      ${kinds.map(kind => html`<option value=${kind}>${inWords(kind)}</option>`)}
    </select></label></form>`;
}
