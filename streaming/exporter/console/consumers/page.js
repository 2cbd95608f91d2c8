/** One group of consumers: where it reads each partition, and what a lost leader would do to it. */
import { url } from "../api.js";
import { bytes, count, counted, duration } from "../format.js";
import { Failed, Waiting } from "../parts/failed.js";
import { Poll } from "../poll.js";
import { href, partitionHref } from "../router.js";
import { html } from "../ui.js";
import { Places, lag } from "./list.js";
import { orNever, placeState, placeWords, remotely, untilLoss, untilRemote } from "./words.js";

const EVERY_MS = 5_000;
const SHOWN = 200;

export function GroupPage({ route, pulse }) {
  const name = route.path[1];
  return html`<${Poll} key=${name} url=${url(`groups/${encodeURIComponent(name)}`, { limit: SHOWN })} every=${EVERY_MS}>
    ${({ answer, error }) => (answer ? html`<${Known} group=${answer} error=${error}
        rules=${pulse.summary?.election_rules ?? {}} />`
      : html`<section class="card"><h1>${name}</h1>
        ${error ? html`<${Failed} error=${error} />` : html`<${Waiting} what="Asking" />`}</section>`)}<//>`;
}

function Known({ group, error, rules }) {
  return html`
    <section class="card" aria-labelledby="title">
      <p><a href=${href(["consumers"])}>All groups</a></p>
      <h1 id="title">${group.group}</h1>
      <${Failed} error=${error} />
      <${Facts} group=${group} />
    </section>
    <section class="card" aria-labelledby="loss-title"><h2 id="loss-title">If a leader is lost</h2>
      <${Losses} leaders=${group.leaders} rules=${rules} /></section>
    <section class="card" aria-labelledby="reads-title"><h2 id="reads-title">Where it reads</h2>
      <${Partitions} group=${group} rules=${rules} /></section>`;
}

function Facts({ group }) {
  const [toRemote, remoteState] = untilRemote(group.until_remote_seconds);
  const [toLoss, lossState] = untilLoss(group.until_loss_seconds);
  const facts = [
    ["state", group.group_state?.replaceAll("_", " ") ?? "unknown"],
    ["members", count(group.members)],
    ["coordinator", group.coordinator === null ? "unknown" : `broker ${group.coordinator}`],
    ["lag", lag(group)],
    ["reads", html`<${Places} group=${group} />`],
    ["leaves the disk", toRemote, remoteState],
    ["loses records", toLoss, lossState],
    ["offsets read", group.age_seconds === null ? "unknown" : `${duration(group.age_seconds)} ago`],
  ];
  return html`<dl class="facts">${facts.map(([name, value, state]) => html`
      <div><dt>${name}</dt><dd class=${state ?? ""}>${value}</dd></div>`)}</dl>
    ${!group.in_use && html`<p class="muted">It has no members, and no offset has changed lately, so it is
      taken as abandoned.</p>`}
    ${group.offsets_left_out > 0 && html`<p class="warn">${counted(group.offsets_left_out, "offset")} of
      it were not sent by the collector: nothing is known of these.</p>`}`;
}

/** By leader: how many of its partitions it leads, and what the group would read remotely then. */
function Losses({ leaders, rules }) {
  if (!leaders.length) return html`<p class="muted">No partition that it reads has a leader.</p>`;
  const worst = ({ if_lost: { kafka } }) => [kafka.unread, kafka.remote_bytes];
  const rows = [...leaders].sort((a, b) => {
    const [unread, size] = worst(a);
    const [otherUnread, otherSize] = worst(b);
    return otherUnread - unread || otherSize - size || b.partitions - a.partitions;
  });
  return html`<p class="muted">Of the partitions that it reads: who leads them, and what it would read from
      remote storage once that leader is lost.</p>
    <div class="wide" tabindex="0" role="region" aria-labelledby="loss-title"><table class="numbers few">
    <thead><tr><th scope="col">leader</th><th scope="col">leads</th>
      ${Object.entries(rules).map(([rule, title]) => html`<th key=${rule} scope="col">by ${title}</th>`)}</tr></thead>
    <tbody>${rows.map(({ broker, partitions, if_lost: then }) => html`<tr key=${broker}>
      <th scope="row"><a href=${href([], { lose: broker })}>broker ${broker}</a></th>
      <td>${count(partitions)}</td>${
        Object.keys(rules).map(rule => html`<${Sum} key=${rule} of=${then[rule]} />`)}</tr>`)}</tbody>
    </table></div>`;
}

function Sum({ of: then }) {
  if (!then) return html`<td class="unknown">unknown</td>`;
  const { remote_bytes: size, unread, unknown } = then;
  const parts = [];
  if (unread) parts.push(`${counted(unread, "partition")} not read`);
  if (size > 0) parts.push(bytes(size));
  if (unknown) parts.push(`unknown for ${count(unknown)}`);
  return html`<td class=${unread ? "bad" : size > 0 ? "warn" : unknown ? "unknown" : "muted"}>${
    parts.join(", ") || "nothing"}</td>`;
}

const BADNESS = ["nobody", "ahead", "nowhere", null, "remote", "disk"];

/** The worst first: what it cannot read, then what it reads remotely, then by lag. */
const worse = (a, b) => BADNESS.indexOf(a.reads_from) - BADNESS.indexOf(b.reads_from)
  || (b.lag_records ?? -1) - (a.lag_records ?? -1);

function Partitions({ group: { partitions, partitions_left_out: leftOut }, rules }) {
  if (!partitions.length) return html`<p class="muted">It has committed no offset.</p>`;
  const shown = [...partitions].sort(worse);
  return html`${leftOut > 0 && html`<p class="muted">The worst ${count(shown.length)} of ${
      counted(shown.length + leftOut, "partition")}.</p>`}
    <div class="wide" tabindex="0" role="region" aria-labelledby="reads-title"><table class="list">
    <thead><tr><th scope="col" rowspan="2">partition</th><th scope="col" rowspan="2">reads</th>
      <th scope="col" rowspan="2">lag</th><th scope="col" rowspan="2">reads a second</th>
      <th scope="col" rowspan="2">leaves the disk</th><th scope="col" rowspan="2">loses records</th>
      <th scope="colgroup" colspan=${Object.keys(rules).length}>if its leader is lost, reads from remote storage</th></tr>
      <tr>${Object.entries(rules).map(([rule, title]) => html`<th key=${rule} scope="col">${title}</th>`)}</tr></thead>
    <tbody>${shown.map(each => html`<${Line} key=${`${each.topic}/${each.partition}`} row=${each}
      rules=${rules} />`)}
    </tbody></table></div>`;
}

function Line({ row, rules }) {
  const cell = ([text, state]) => html`<td class=${state}>${text}</td>`;
  const from = row.broker === null || row.broker < 0 ? "" : ` of broker ${row.broker}`;
  return html`<tr>
    <th scope="row"><a href=${partitionHref(row.topic, row.partition)}>${row.topic}-${row.partition}</a></th>
    <td class=${placeState(row.reads_from)}>${placeWords(row.reads_from)}${
      row.reads_from === "disk" ? from : ""}${goesOn(row.reset_to)}</td>
    <td>${count(row.lag_records)}${row.lag_s > 0 && html` <span class="muted">(${
      duration(row.lag_s)})</span>`}</td>
    <td>${row.records_per_s === null ? "unknown" : count(Math.round(row.records_per_s * 10) / 10)}</td>
    ${cell(untilRemote(orNever(row.until_remote_s, row.never_remote)))}
    ${cell(untilLoss(orNever(row.until_loss_s, row.never_lost)))}
    ${Object.keys(rules).map(rule => cell(thenOf(row.if_leader_lost[rule])))}
  </tr>`;
}

/** Where its consumer goes on if the log does not have its offset: that depends on its settings. */
function goesOn(reset) {
  if (!reset) return "";
  const { earliest, latest, diverging = null } = reset;
  const policy = `auto.offset.reset to ${count(earliest)} (earliest) or ${count(latest)} (latest)`;
  return diverging === null ? `; goes on by ${policy}`
    : `; goes on at ${count(diverging)} if it committed its epoch, else by ${policy}`;
}

function thenOf(then) {
  if (!then || then.reads_from === null) return ["unknown", "unknown"];
  if (then.reads_from === "nobody") return ["nobody leads", "bad"];
  if (then.reads_from === "nowhere") return ["below the start of that log", "bad"];
  if (then.reads_from === "ahead") return ["beyond the end of that log", "bad"];
  const [text, state] = remotely(then.remote_bytes);
  return [`${text} (${then.broker < 0 || then.broker === null ? "unknown who serves it"
    : `broker ${then.broker}`})`, state];
}
