/** What the twin has found about a partition, in sentences: nothing is shown of what is usual. */
import { bytes, count, counted, duration, listed } from "../format.js";
import { Time } from "../parts/time.js";
import { html } from "../ui.js";
import { inWords } from "../words.js";

/** One function for each finding: the sentences about a partition, as texts or lists of their parts. */
const FINDINGS = {
  "Records lost": lostRecords,
  "Unclean elections": uncleanElections,
  "Left the ISR": shrinks,
  "Catches up": catchingUp,
  "Would truncate": truncations,
  "If elected unclean": uncleanSuccessors,
  "Slow leader (KIP-501)": handover,
  "Read by consumers": reads,
  "Racks": racks,
  "Remote storage": remoteStorage,
  "An empty replica": bootstrap,
};

export function Findings({ partition }) {
  const found = Object.entries(FINDINGS).map(([title, say]) => [title, say(partition)])
    .filter(([, sentences]) => sentences.length);
  if (!found.length) return html`<p class="muted">Nothing unusual.</p>`;
  return html`<dl class="findings">${found.map(([title, sentences]) => html`<div key=${title}>
    <dt>${title}</dt>${sentences.map(each => html`<dd>${each}</dd>`)}</div>`)}</dl>`;
}

const at = ms => html`<${Time} ms=${ms} />`;

const offsets = ({ start_offset: start, end_offset: end }) =>
  `offsets ${count(start)} to before ${end === null ? "an unknown end" : count(end)}`;

const CAUSES = {
  unclean: "it was not in sync", shorter_log: "it came back with less than it had",
  acks_1: "they had not been replicated to it",
};

const ACKNOWLEDGED = {
  certain: "Some of them were committed.", possible: "Whether they were acknowledged is unknown.",
  no: "Producers with acks=all got no acknowledgement for them.",
};

function lostRecords({ records_lost: elections }) {
  return (elections ?? []).map(each => [at(each.at_ms), `: broker ${each.new_leader} leads `
    + `without ${offsets(each)}, since ${CAUSES[each.cause]}. ${ACKNOWLEDGED[each.acknowledged]} ${each.end_is_exact
      ? "This is exact." : `At least; about up to ${count(each.end_estimate_offset)}.`}`]);
}

function uncleanElections({ unclean_elections: elections }) {
  const known = offset => offset === null ? "an unknown offset" : count(offset);
  return (elections ?? []).map(each => [at(each.at_ms), `: broker ${each.new_leader} was elected from `
    + `outside the ISR and the ELR, after ${each.old_leader}. Records from ${known(each.start_offset)} on `
    + `may be lost, about up to ${known(each.end_estimate_offset)}.`]);
}

const STAYED = {
  true: "KIP-501 would have kept it in sync.", false: "KIP-501 would not have kept it either.",
  null: "",
};

function shrinks({ isr_shrinks: left, kip501 = [], isr_thrash: thrash }) {
  const sentences = (left ?? []).map((each, i) => [at(each.at_ms), `: broker ${each.broker}, led by `
    + `${each.leader}: ${each.meaning}. ${each.rejoined_at_ms === null ? "It has not come back yet."
      : `It came back after ${duration((each.rejoined_at_ms - each.at_ms) / 1_000)}.`} `
    + `${STAYED[String(kip501?.[i]?.would_have_stayed ?? null)] ?? ""}`]);
  return thrash ? [...sentences, `Broker ${thrash.replica} came back ${counted(thrash.flaps, "time")}, `
    + `every ${duration(thrash.period_seconds)}; broker ${thrash.attributed_broker} is the likely cause.`]
    : sentences;
}

function catchingUp({ catching_up: replicas }) {
  return (replicas ?? []).map(each => {
    const from = each.start_offset === null ? "" : ` from offset ${count(each.start_offset)}`;
    const path = each.path === null ? "" : ` (${inWords(each.path)})`;
    const left = each.seconds_left === null ? "" : `, ${duration(each.seconds_left)} to go`;
    const rest = each.stuck ? `It is stuck: ${inWords(each.stuck)}.`
      : each.progress === null ? "How much it has is unknown."
        : `It has ${Math.round(each.progress * 100)} %${left}.`;
    return [`Broker ${each.broker}, since `, at(each.since_ms), `${from}${path}. ${rest}`];
  });
}

function truncations({ truncations: replicas }) {
  return (replicas ?? []).map(each => `Broker ${each.broker} has records that the leader lacks. `
    + (each.to_offset === null ? "How many is unknown: the leader's epochs could not be read."
      : `When it is back it truncates to ${count(each.to_offset)}: ${counted(each.records, "record")}.`));
}

function uncleanSuccessors({ unclean_successors: replicas }) {
  return (replicas ?? []).map(each => `Broker ${each.broker} lacks ${each.records_lost === null
    ? "an unknown number of records" : counted(each.records_lost, "record")}; ${
    each.orphaned_bytes === null ? "what it would orphan in remote storage is unknown"
      : `${bytes(each.orphaned_bytes)} in remote storage would be orphaned`}.`);
}

function handover({ handover_kip501: to, kip501_ping_pong: back }) {
  if (!to || to.leader === null) return [];
  const target = [to.is_cold && "cold", to.is_slow && "slow too"].filter(Boolean);
  return [`The leader is slow. By solution 2 it would hand over to broker ${to.leader}${
    target.length ? `, which is ${listed(target)}` : ""}.`,
  back && ["Both have been slow since ", at(back.since_ms), `: up to ${
    counted(back.handovers, "handover")} back and forth by now.`]].filter(Boolean);
}

function reads({ cold_reads: cold, out_of_range_windows: windows, read_replicas: replicas, leader }) {
  const elsewhere = Object.entries(replicas ?? {}).filter(([, to]) =>
    [to.newest, to.oldest_on_disk].some(each => each !== null && each !== leader));
  return [
    ...elsewhere.map(([rack, to]) => `Consumers in ${rack ? `rack ${rack}` : "no rack"} are sent to `
      + `broker ${to.newest} for new records, to ${to.oldest_on_disk} for the oldest on disk.`),
    ...[cold ?? []].flat().map(each => `Broker ${each.broker} reads ${offsets(each)} from remote `
      + "storage, though another replica has them on disk."),
    ...(windows ?? []).map(each => `Broker ${each.broker} cannot serve ${offsets(each)} (KIP-392, ${
      inWords(each.case)}): it answers ${each.error ?? "no error and no records"}.`),
  ];
}

function racks({ racks_without_in_sync_replica: without }) {
  return without?.length ? [`No replica in ${listed(without)} is in sync: consumers there read from `
    + "another rack."] : [];
}

function remoteStorage({ remote_segments: segments }) {
  if (!segments) return [];
  const { gap_start_offset: gap, gap_end_offset: gapEnd, orphan_segments: orphans,
    orphan_bytes: size, dangling_segments: dangling, duplicates,
    undescribed_segments: undescribed } = segments;
  return [
    gap !== null && `Offsets ${count(gap)} to before ${count(gapEnd)} are in no finished copy.`,
    orphans > 0 && `${counted(orphans, "finished copy", "finished copies")} (${bytes(size)}) no longer `
      + "belong to the log, and Kafka does not delete them.",
    dangling > 0 && `${counted(dangling, "copy", "copies")} started and did not finish.`,
    duplicates > 0 && `${counted(duplicates, "copy", "copies")} of offsets that another copy has.`,
    undescribed > 0 && `${counted(undescribed, "copy", "copies")} of unknown offsets: gaps are not judged.`,
  ].filter(Boolean);
}

/** Where an empty follower starts, where the feature of KIP-1023 makes a difference. */
function bootstrap({ bootstrap: start }) {
  const { kip1023_on: on, kip1023_off: off, saved_share: saved } = start ?? {};
  if (!saved) return [];
  return [`With KIP-1023 it starts at ${count(on.start_offset)} (${inWords(on.path)}) and copies `
    + `${bytes(on.bytes_estimate)}; without, at ${count(off.start_offset)}, and copies `
    + `${bytes(off.bytes_estimate)}.`];
}
