/** Groups of consumers, the worst first: how far behind they are, and where they read. */
import { url } from "../api.js";
import { count, duration } from "../format.js";
import { Failed, Waiting } from "../parts/failed.js";
import { Pager, pageOf } from "../parts/pager.js";
import { Poll } from "../poll.js";
import { go, groupHref, href } from "../router.js";
import { html } from "../ui.js";
import { placesOf, readsThen, untilLoss, untilRemote } from "./words.js";

const PAGE = 50;
const EVERY_MS = 5_000;
const NAMES = ["search", "topic"];

export function GroupList({ route, pulse }) {
  const filters = Object.fromEntries(NAMES.map(name => [name, route.query.get(name) ?? ""]));
  const page = pageOf(route);
  const asked = url("groups", { ...filters, sort: "worst", limit: PAGE, offset: page * PAGE });
  const to = number => href(["consumers"], { ...filters, page: number || "" });
  return html`<section class="card" aria-labelledby="title">
    <h1 id="title">Consumers</h1>
    <${Filters} filters=${filters} />
    <${Poll} url=${asked} every=${EVERY_MS}>${({ answer, error, url: answered }) => html`
      <${Failed} error=${error} />
      ${!answer ? !error && html`<${Waiting} what="Asking for groups" />`
        : html`<${Table} answer=${answer} filters=${filters}
            rules=${pulse.summary?.election_rules ?? {}} />
          <${Pager} total=${answer.total} what="group" page=${page} size=${PAGE} to=${to}
            isOld=${answered !== asked} />`}`}<//>
  </section>`;
}

function Filters({ filters }) {
  const change = (name, value, replace) =>
    go(href(["consumers"], { ...filters, [name]: value }), { replace });
  return html`<form class="filters" onSubmit=${event => event.preventDefault()}>
    <label>name contains <input type="search" value=${filters.search}
      onInput=${event => change("search", event.target.value.trim(), true)} /></label>
    ${filters.topic && html`<span class="pill">topic ${filters.topic}
      <button type="button" class="quiet" aria-label="Any topic"
        onClick=${() => change("topic", "")}>×</button></span>`}</form>`;
}

function Table({ answer, filters, rules }) {
  if (!answer.total) {
    return html`<p>${Object.values(filters).some(Boolean) ? "No group meets all of that."
      : "No group of consumers is known. The collector reads them where [groups] is on."}</p>`;
  }
  return html`<div class="wide" tabindex="0" role="region" aria-label="Groups"><table class="list">
    <thead><tr><th scope="col" rowspan="2">group</th><th scope="col" rowspan="2">members</th>
      <th scope="col" rowspan="2">lag</th><th scope="col" rowspan="2">reads</th>
      <th scope="col" rowspan="2">leaves the disk</th><th scope="col" rowspan="2">loses records</th>
      <th scope="colgroup" colspan=${Object.keys(rules).length}>if leaders are lost, reads from remote storage</th>
      <th scope="col" rowspan="2">offsets</th></tr>
      <tr>${Object.entries(rules).map(([rule, title]) => html`<th key=${rule} scope="col">${title}</th>`)}</tr></thead>
    <tbody>${answer.groups.map(each => html`<${Line} key=${each.group} group=${each} rules=${rules} />`)}</tbody>
  </table></div>`;
}

function Line({ group, rules }) {
  return html`<tr class=${group.in_use ? "" : "unused"}>
    <th scope="row"><a href=${groupHref(group.group)}>${group.group}</a></th>
    <td>${members(group)}</td>
    <td>${lag(group)}</td>
    <td><${Places} group=${group} /></td>
    <${Cell} of=${untilRemote(group.until_remote_seconds)} />
    <${Cell} of=${untilLoss(group.until_loss_seconds)} />
    ${Object.keys(rules).map(rule => html`<${Cell} key=${rule} of=${readsThen(group, rule)} />`)}
    <td>${group.age_seconds === null ? "unknown" : `read ${duration(group.age_seconds)} ago`}</td>
  </tr>`;
}

const Cell = ({ of: [text, state] }) => html`<td class=${state}>${text}</td>`;

export function Places({ group }) {
  const places = placesOf(group);
  if (group.observed_at_ms === null) return html`<span class="unknown">unknown</span>`;
  if (!places.length) return html`<span class="muted">nothing committed</span>`;
  return places.map(([text, state], i) => html`${i > 0 && ", "}<span class=${state}>${text}</span>`);
}

function members({ members: number, group_state: state }) {
  if (number === null) return html`<span class="unknown">unknown</span>`;
  return html`${count(number)} <span class="muted">${state?.replaceAll("_", " ") ?? ""}</span>`;
}

/** Records, and the time in which they were appended. */
export function lag({ lag_records: records, lag_seconds: seconds }) {
  if (records === undefined) return html`<span class="unknown">unknown</span>`;
  return html`${count(records)}${seconds > 0 && html` <span class="muted">(${
    duration(seconds)})</span>`}`;
}
