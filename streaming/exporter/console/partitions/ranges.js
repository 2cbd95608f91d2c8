/** Ranges of offsets of one replica's log, from the offsets that brokers answer. */

/** {from, to} over all replicas; null if nobody said. */
export function scaleOf({ replicas }) {
  const starts = replicas.map(each => each.log_start_offset ?? each.local_log_start_offset)
    .filter(offset => offset !== null);
  const ends = replicas.map(each => each.log_end_offset).filter(offset => offset !== null);
  if (!starts.length || !ends.length) return null;
  const from = Math.min(...starts);
  const to = Math.max(...ends);
  const uploaded = uploadedBefore(replicas);
  return to > from ? { from, to, uploaded } : { from, to: from + 1, uploaded };
}

/** The first offset that is not in remote storage, as far as any replica knows; null if none does. */
function uploadedBefore(replicas) {
  const known = replicas.flatMap(each => [
    each.pending_upload_offset, each.last_tiered_offset === null ? null : each.last_tiered_offset + 1,
  ]).filter(offset => offset !== null);
  if (known.length) return Math.max(...known);
  return replicas.some(each => each.pending_upload === "nothing_tiered") ? -1 : null;
}

/** [{kind, from, to}] of a replica, in the order of offsets: remote, both, local or unknown. */
export function rangesOf(replica, { from, uploaded }) {
  const { log_start_offset: start, local_log_start_offset: local, log_end_offset: end } = replica;
  if (end === null) return [];
  const first = start ?? local ?? from;
  const onDisk = local ?? first;
  const tiered = uploaded === null ? onDisk : Math.min(Math.max(uploaded, onDisk), end);
  return [
    { kind: "remote", from: first, to: onDisk },
    { kind: "both", from: onDisk, to: tiered },
    { kind: uploaded === null ? "unknown" : "local", from: tiered, to: end },
  ].filter(range => range.to > range.from);
}
