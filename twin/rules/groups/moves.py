"""How far groups of consumers are behind, and how fast they move.

Groups are read less often than the cluster. So the lag of a group is computed in the cycle that
brings its committed offset, and stays until the offset is read again: an offset and a log end from
different times would give a lag that no group has. The offset is compared with the high watermark,
as in `kafka-consumer-groups.sh`.
"""

from __future__ import annotations

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import gauge, group_gauge, rule
from twin.declarations.signature import Before, Cycle, NowMs
from twin.declarations.table import (
    UNKNOWN,
    Array,
    Bool,
    Float64,
    Int8,
    Int32,
    Int64,
    SparseTable,
    column,
)
from twin.rules.groups.usage import is_in_use, last_assigned
from twin.rules.partitions.growth import Growth, moving_average
from twin.rules.partitions.leaders import Leaders
from twin.rules.replication.high_watermark import HighWatermarks
from twin.tables.state import Configs, GroupOffsets, Groups


class GroupMoves(SparseTable, kind="group_moves", version=2, counts_in=(Groups,)):
    """[N] one row a group and a partition, in the order of ``group_offsets``."""

    group_index: Int32 = column("row in groups")
    committed_offset: Int64 = column("offset of the next record to read")
    read_at_ms: Int64 = column("when it was read")
    end_offset: Int64 = column("high watermark of the partition then")
    records_per_s: Float64 = column("records that the group reads a second, a moving average")
    moved_at_ms: Int64 = column("when the committed offset was last seen to change")
    still_since_ms: Int64 = column(
        "since when the committed offset is known to stand still, as long as the leader answers; "
        "unknown while it has just changed"
    )
    was_assigned: Int8 = column(
        "a member was assigned the partition when the group was last stable; unknown since it had "
        "no members",
        tri_state=True,
    )


class GroupLags(SparseTable, kind="group_lags", on_demand="a difference of stored offsets"):
    """[N] how far each group is behind, in the order of ``group_offsets``."""

    lag_records: Int64 = column("records between the committed offset and the high watermark")
    lag_at_most_records: Int64 = column(
        "the same; where the high watermark is unknown, records up to the leader's log end"
    )
    lag_s: Float64 = column(
        "time in which these are appended; NaN if unknown, and where nothing is written now",
        fill=float("nan"),
    )
    in_use: Bool = column(
        "a member is assigned the partition, or was when the group was last stable, if it is not "
        "now; where neither is known, and of a group without members, the offset changed within "
        "`collector.group_in_use_ms`",
        fill=False,
    )


@rule
def group_moves(
    offsets: GroupOffsets,
    groups: Groups,
    old_groups: Before[Groups],
    before: Before[GroupMoves],
    watermarks: HighWatermarks,
    leaders: Leaders,
    cycle: Cycle,
) -> GroupMoves:
    """The average changes with each committed offset that is read. It starts again if an offset is
    lower than the one before, since the offset was reset."""
    if not len(offsets):
        return GroupMoves.empty()
    if _is_unchanged(before, offsets) and np.array_equal(groups.group, old_groups.group):
        return before
    old = _aligned(offsets, groups, old_groups, before)
    committed, read_at_ms = offsets.committed_offset, offsets.read_at_ms
    is_new = read_at_ms > old["read_at_ms"]
    row = offsets.row.astype(np.intp)
    end, answered_at_ms = watermarks.high_watermark[row], leaders.sampled_at_ms[row]
    both = is_new & (old["committed_offset"] != UNKNOWN) & (committed != UNKNOWN)
    records = np.where(both, committed - old["committed_offset"], 0)
    elapsed_s = np.where(both, read_at_ms - old["read_at_ms"], 1000) / 1000
    rate, average = records / elapsed_s, old["records_per_s"]
    average = np.where(both & (records >= 0), moving_average(average, rate), UNKNOWN)
    return GroupMoves(
        row=offsets.row,
        group_index=offsets.group_index,
        committed_offset=committed,
        read_at_ms=read_at_ms,
        end_offset=np.where(is_new, end, old["end_offset"]),
        records_per_s=np.where(is_new, average, old["records_per_s"]),
        moved_at_ms=np.where(records != 0, read_at_ms, old["moved_at_ms"]),
        still_since_ms=np.where(
            is_new,
            np.where(
                records != 0, UNKNOWN, _still_since_ms(old, answered_at_ms, read_at_ms, cycle)
            ),
            old["still_since_ms"],
        ),
        was_assigned=last_assigned(offsets, groups, old["was_assigned"]),
    )


def _still_since_ms(
    old: dict[str, Array], answered_at_ms: Int64, read_at_ms: Int64, cycle: Cycle
) -> Int64:
    """[N] a time since which groups have committed their offsets, by the collector's clock.

    A round of groups runs beside the cycles, and may begin and end within the one that brings it.
    The time begins anew if the leader has not answered since the last reading: what it said before
    is too old to compare with.
    """
    since_ms = old["still_since_ms"]
    goes_on = (since_ms != UNKNOWN) & (old["committed_offset"] != UNKNOWN)
    goes_on &= answered_at_ms > old["read_at_ms"]
    return np.where(goes_on, since_ms, np.maximum(read_at_ms, cycle.observed_at_ms))


@rule
def group_lags(
    moves: GroupMoves,
    offsets: GroupOffsets,
    groups: Groups,
    growth: Growth,
    leaders: Leaders,
    configs: Configs,
    now_ms: NowMs,
) -> GroupLags:
    """The lag of each group, unknown if its offset or the high watermark is unknown: a new leader
    does not know that for a moment, nor does the twin while a member of the ISR does not answer.

    A group that is ahead of the log has none: where it continues is for its consumer to say.
    """
    is_behind = ~is_ahead(moves, leaders)
    is_known = _has_lag(moves) & is_behind
    lag = np.where(is_known, _lag_behind(moves), UNKNOWN)
    row = moves.row.astype(np.intp)
    end, rate = leaders.log_end_offset[row], growth.appended_records_per_s[row]
    # The high watermark was not above a log end that was read since.
    is_bound = (leaders.sampled_at_ms[row] >= moves.read_at_ms) & (end != UNKNOWN)
    is_bound &= (moves.committed_offset != UNKNOWN) & is_behind
    bound = np.where(is_bound, np.maximum(end - moves.committed_offset, 0), UNKNOWN)
    with np.errstate(divide="ignore", invalid="ignore"):
        lag_s = np.where((lag > 0) & (rate > 0), lag / rate, np.nan)
    return GroupLags(
        row=moves.row,
        lag_records=lag,
        lag_at_most_records=np.where(is_known, lag, bound),
        lag_s=np.where(lag == 0, 0.0, lag_s),
        in_use=is_in_use(offsets, groups, moves.was_assigned, moves.moved_at_ms, configs, now_ms),
    )


def signed_lags(
    moves: GroupMoves, leaders: Leaders, watermarks: HighWatermarks
) -> tuple[Int64, Bool]:
    """[N], [N] the lags of Kafka's tool, negative for groups that are ahead; which are known.

    Offsets from different times can be out of order by chance, which makes no negative lag.
    """
    end = watermarks.high_watermark[moves.row.astype(np.intp)]
    ahead = is_ahead(moves, leaders)
    lag = np.where(ahead, end - moves.committed_offset, _lag_behind(moves))
    return lag, np.where(ahead, end != UNKNOWN, _has_lag(moves))


def _has_lag(moves: GroupMoves) -> Bool:
    return (moves.committed_offset != UNKNOWN) & (moves.end_offset != UNKNOWN)


def _lag_behind(moves: GroupMoves) -> Int64:
    return np.maximum(moves.end_offset - moves.committed_offset, 0)


def is_ahead(moves: GroupMoves, leaders: Leaders) -> Bool:
    """[N] the leader's log ends before the committed offset.

    An offset that was read after the log end may be of later records. So the leader must have
    answered since the offset is known to stand still. Later readings of the same offset, which may
    be younger than the leader's last answer, do not change that.
    """
    row = moves.row.astype(np.intp)
    end = leaders.log_end_offset[row]
    is_beyond: Bool = (end != UNKNOWN) & (moves.committed_offset > end)
    is_beyond &= moves.still_since_ms != UNKNOWN
    is_beyond &= leaders.sampled_at_ms[row] > moves.still_since_ms
    return is_beyond


def _is_unchanged(before: GroupMoves, offsets: GroupOffsets) -> bool:
    """The offsets are those of the cycle before: most cycles bring no round of groups."""
    names = ("read_at_ms", "row", "group_index")
    return all(np.array_equal(getattr(before, name), getattr(offsets, name)) for name in names)


def _aligned(
    offsets: GroupOffsets, groups: Groups, old_groups: Groups, before: GroupMoves
) -> dict[str, Array]:
    """[N] the columns of ``before`` in the order of ``offsets``, blank where a row is new."""
    names = [c.name for c in GroupMoves.columns[2:]]
    group_index = _renumbered(before.group_index, groups, old_groups)
    if np.array_equal(before.row, offsets.row) and np.array_equal(group_index, offsets.group_index):
        return {name: getattr(before, name) for name in names}
    stays = group_index != UNKNOWN
    old_keys = keys.pack(before.row[stays], group_index[stays])
    place = keys.find_sorted(old_keys, keys.pack(offsets.row, offsets.group_index))
    columns = {}
    for name in names:
        values = getattr(before, name)[stays]
        columns[name] = np.append(values, values.dtype.type(UNKNOWN))[place]
    return columns


def _renumbered(group_index: Int32, groups: Groups, old_groups: Groups) -> Int32:
    """[N] where those groups of the previous cycle are now, UNKNOWN for those that are gone."""
    if np.array_equal(groups.group, old_groups.group):
        return group_index
    place = {name: i for i, name in enumerate(groups.group)}
    moved = [place.get(name, UNKNOWN) for name in old_groups.group]
    return np.array([*moved, UNKNOWN], np.int32)[group_index]


# ---------------------------------------------------------------- exported


@group_gauge("lag_records", "Records that {group} has not read.")
def lag_records(lags: GroupLags) -> Array:
    """The lags, without partitions of unknown lag."""
    return lags.lag_records


@group_gauge(
    "lag_seconds",
    "Seconds in which the records were appended that {group} has not read, at most.",
    combine="max",
)
def lag_seconds(lags: GroupLags) -> Array:
    """The largest lag over the partitions of a group."""
    return lags.lag_s


@gauge("groups", "Groups of consumers that the twin knows.", combine="max")
def known_groups(groups: Groups) -> int:
    """The groups; shard 0 has all of them, others those that read their partitions."""
    return len(groups.group)


@gauge(
    "group_offsets_left_out",
    "Offsets of groups that the collector did not send because there are more than "
    "collector.max_group_offsets.",
    combine="max",
)
def offsets_left_out(groups: Groups) -> int:
    """The offsets that were left out; shard 0 has all of them."""
    return int(groups.offsets_left_out.sum())
