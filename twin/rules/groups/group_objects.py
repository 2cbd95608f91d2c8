"""Each group in each partition, as plain data for the JSON API."""

from __future__ import annotations

from typing import Any

import numpy as np

from twin.arrays import plain
from twin.declarations.declare import api_field
from twin.declarations.signature import EachRule
from twin.declarations.table import SparseTable, Table
from twin.rules.election.records_lost import RecordsLost
from twin.rules.groups.group_forecasts import GroupForecasts
from twin.rules.groups.loss import GroupsIfLeaderLost
from twin.rules.groups.moves import GroupLags, GroupMoves
from twin.rules.groups.reads import GroupReads, GroupServers, ReadsFrom
from twin.rules.partitions.leaders import Leaders
from twin.rules.tiering.warm_up import NEVER
from twin.tables.state import GroupOffsets, Groups, Partitions, ReaderRacks

_NOT_SHOWN = (
    "row", "group_index", "rack_index", "end_offset", "moved_at_ms", "still_since_ms",
    "was_assigned", "more_remote_bytes",
)  # fmt: skip


@api_field(
    "groups",
    "groups of consumers that committed offsets. Each has: `group`; `committed_offset`, and "
    "`read_at_ms` when it was read; `assigned`: a member reads the partition, in its `rack`; "
    "`in_use`: true if a member is assigned the partition, or was when the group was last stable, "
    "if it is not now; where neither is known, and of a group without members, if its offset "
    "changed within `collector.group_in_use_ms`; `records_per_s` that it reads; "
    "`lag_records`, and `lag_s` in which these were appended; `lag_at_most_records`: the same, or "
    "the records up to the leader's log end where the lag is null since the high watermark is "
    "unknown; `broker` that serves it; "
    "`reads_from`: `disk`, `remote` storage, `nowhere` (its next records are deleted, or missing "
    "in remote storage), `ahead` (the log ends before its offset) or `nobody` (there is no "
    "leader); `reset_to`: the offset that "
    "each value of auto.offset.reset gives, `earliest` and `latest`, if it is `nowhere` or "
    "`ahead`, else null; with `ahead` it also has `diverging`, the first lost offset, at which a "
    "consumer continues that committed its leader epoch, as Kafka's own consumers do (KIP-320), "
    "unless auto.offset.reset is none; null if not known; `remote_records` that it reads from "
    "remote storage, up to the next one that is missing there; seconds `until_remote_s` and "
    "`until_loss_s`, at the earliest, null if unknown or never (`never_remote`, `never_lost`); "
    "`lost_by_s`: seconds until these are deleted at the latest, as long as producers and the "
    "group go on as now: retention deletes whole segments, and never the active one; null if "
    "unknown. `if_leader_lost` has, by election rule, the `broker` that "
    "would serve it then, `reads_from`, `remote_records` and `remote_bytes`",
)
def groups_field(
    partitions: Partitions,
    groups: Groups,
    offsets: GroupOffsets,
    racks: ReaderRacks,
    moves: GroupMoves,
    lags: GroupLags,
    reads: GroupReads,
    servers: GroupServers,
    forecasts: GroupForecasts,
    then: EachRule[GroupsIfLeaderLost],
    leaders: Leaders,
    losses: RecordsLost,
) -> list[list[dict[str, Any]]]:
    """A list of groups for each partition, sorted by name."""
    columns: dict[str, list[Any]] = {"group": groups.group[offsets.group_index].tolist()}
    for table in (offsets, moves, lags, servers, reads, forecasts):
        columns |= plain_columns(table)
    names = [*racks.rack.tolist(), None]
    columns["rack"] = [names[place] for place in offsets.rack_index.tolist()]
    for name, seconds in (
        ("never_remote", forecasts.until_remote_s),
        ("never_lost", forecasts.until_loss_s),
    ):
        columns[name] = (seconds == NEVER).tolist()
    columns["reset_to"] = _resets(reads, moves, leaders, losses)
    by_rule = {name: _objects(plain_columns(each)) for name, each in then.items()}
    columns["if_leader_lost"] = _objects(by_rule)
    return plain.by_partition(offsets.row, _objects(columns), len(partitions.leader))


def _resets(
    reads: GroupReads, moves: GroupMoves, leaders: Leaders, losses: RecordsLost
) -> list[dict[str, int | None] | None]:
    """[N] the offsets at which groups that cannot continue may go on."""
    resets: list[dict[str, int | None] | None] = [None] * len(reads)
    for i in np.flatnonzero(np.isin(reads.reads_from, (ReadsFrom.NOWHERE, ReadsFrom.AHEAD))):
        row = reads.row[i]
        resets[i] = reset = {
            "earliest": plain.integer(leaders.log_start_offset[row]),
            "latest": plain.integer(leaders.log_end_offset[row]),
        }
        if reads.reads_from[i] == ReadsFrom.AHEAD:
            reset["diverging"] = _diverging(int(row), int(moves.committed_offset[i]), losses)
    return resets


def _diverging(row: int, offset: int, losses: RecordsLost) -> int | None:
    """The first lost offset; which of several losses concerns a group, its epoch alone says."""
    starts = {
        (start, exact)
        for start, exact in zip(
            losses.start_offset[losses.row == row].tolist(),
            losses.start_is_exact[losses.row == row].tolist(),
            strict=True,
        )
        if start < offset
    }
    if len(starts) != 1:
        return None
    [(start, is_exact)] = starts
    return start if is_exact else None


def plain_columns(table: SparseTable | Table) -> dict[str, list[Any]]:
    """The columns that are shown, as plain data."""
    return {
        c.name: plain.column_values(c, getattr(table, c.name))
        for c in table.columns
        if c.name not in _NOT_SHOWN
    }


def _objects(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
