/** Partitions: searched, filtered, the worst first, a page at a time. */
import { url } from "../api.js";
import { counted, duration } from "../format.js";
import { Failed, Waiting } from "../parts/failed.js";
import { Pager, pageOf } from "../parts/pager.js";
import { Poll } from "../poll.js";
import { href, partitionHref } from "../router.js";
import { html } from "../ui.js";
import { SEVERITIES, inWords } from "../words.js";
import { Filters, filtersOf } from "./filters.js";
import { NextLeader } from "./next_leader.js";

const PAGE = 50;

export function PartitionList({ route, pulse }) {
  const filters = filtersOf(route);
  const page = pageOf(route);
  const asked = url("partitions", { ...filters, sort: "worst", limit: PAGE, offset: page * PAGE });
  const risks = pulse.summary?.risks ?? {};
  const { kafka: _, ...rules } = pulse.summary?.election_rules ?? {};
  const to = number => href(["partitions"], { ...filters, page: number || "" });
  return html`<section class="card" aria-labelledby="title">
    <h1 id="title">Partitions</h1>
    <${Filters} filters=${filters} risks=${risks} brokers=${pulse.brokers ?? []} />
    ${filters.search && html`<${GroupsToo} search=${filters.search} />`}
    <${Poll} url=${asked}>${({ answer, error, url: answered }) => html`
      <${Failed} error=${error} />
      ${!answer ? !error && html`<${Waiting} what="Asking for partitions" />`
        : html`<${Table} answer=${answer} risks=${risks} rules=${rules} />
          <${Pager} total=${answer.total} what="partition" page=${page} size=${PAGE} to=${to}
            isOld=${answered !== asked} />`}`}<//>
  </section>`;
}

/** The search of the top bar leads here, and may have been for groups of consumers. */
function GroupsToo({ search }) {
  return html`<${Poll} url=${url("groups", { search, limit: 0 })} every=${0}>
    ${({ answer }) => answer?.total > 0 && html`<p>Also
      ${" "}<a href=${href(["consumers"], { search })}>${counted(answer.total, "group")} of consumers</a>
      ${" "}${answer.total === 1 ? "has" : "have"} that in the name.</p>`}<//>`;
}

/** A column for each election rule beside Kafka's: names and titles are those in ``rules``. */
function Table({ answer, risks, rules }) {
  if (!answer.total) return html`<p>No partition meets all of that.</p>`;
  return html`<div class="wide" tabindex="0" role="region" aria-label="Partitions"><table class="list">
    <thead><tr><th scope="col">partition</th><th scope="col">leader</th><th scope="col">ISR</th>
      <th scope="col">risks, the worst first</th><th scope="col">next leader</th>
      ${Object.entries(rules).map(([rule, title]) => html`<th key=${rule} scope="col">by ${title}</th>`)}
      <th scope="col">observed</th></tr></thead>
    <tbody>${answer.partitions.map(each => html`
      <${Line} key=${`${each.topic}/${each.partition}`} partition=${each} risks=${risks} rules=${rules} />`)}
    </tbody></table></div>`;
}

function Line({ partition, risks, rules }) {
  const { topic, partition: number, leader } = partition;
  return html`<tr>
    <th scope="row"><a href=${partitionHref(topic, number)}>${topic}-${number}</a></th>
    <td class=${leader === -1 ? "bad" : ""}>${leader === null ? "unknown"
      : leader < 0 ? "nobody" : leader}</td>
    <td>${partition.isr.join(" ") || "empty"}</td>
    <td>${partition.risks.map(name => html`<${Risk} key=${name} name=${name} risks=${risks} />`)}
      ${!partition.risks.length && html`<span class="muted">none</span>`}</td>
    <td><${NextLeader} next=${partition.next_leaders.kafka} /></td>
    ${Object.keys(rules).map(rule => html`
      <td key=${rule}><${NextLeader} next=${partition.next_leaders[rule]} /></td>`)}
    <td>${partition.age_seconds === null ? "unknown" : `${duration(partition.age_seconds)} ago`}</td>
  </tr>`;
}

/** A risk by its name; its sentence is in the title, and on the partition's page. */
export function Risk({ name, risks }) {
  const state = SEVERITIES[risks[name]?.severity] ?? "info";
  return html`<span class=${`pill ${state}`} title=${risks[name]?.meaning ?? ""}>${inWords(name)}</span> `;
}
