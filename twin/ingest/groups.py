"""Groups of consumers and the offsets that they committed.

Groups are read at their own pace, so most cycles bring none of these frames. Two frames of a
cycle belong together: ``groups`` lists groups, ``group_offsets`` has the rows of those whose
offsets were read. Each may come first, and in parts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from twin.arrays import keys
from twin.arrays.columns_in_arrow import object_array, to_numpy
from twin.declarations.declare import expiry, ingest
from twin.declarations.signature import Cycle
from twin.declarations.table import UNKNOWN, Array, Bool, Int32, blank
from twin.engine.frames import Frame, FrameHeader, InvalidFrame
from twin.engine.rows import refuse_duplicates, rows_of
from twin.engine.shard_state import ShardState
from twin.tables.columns import GROUP_DESCRIPTION
from twin.tables.observations import GroupOffsetsFrame, GroupsFrame
from twin.tables.state import FormerOffsets, GroupListing, GroupOffsets, Groups, ReaderRacks


@ingest(GroupsFrame)
def take_groups(state: ShardState, frame: Frame) -> ShardState:
    """Take in the listed groups; a complete listing drops groups that it does not have."""
    at_ms = frame.header.observed_at_ms
    columns = {name: to_numpy(frame.rows.column(name)) for name in frame.rows.column_names}
    refuse_duplicates(columns["group"], "group")
    if _whole_at_ms(state) == at_ms:
        return state
    state, at = _with_groups(state, columns["group"], create=True)
    table = state[Groups]
    written = {}
    for name in GROUP_DESCRIPTION:
        written[name] = values = getattr(table, name).copy()
        values[at] = columns[name]
    read_at_ms, listed_at_ms = table.read_at_ms.copy(), table.listed_at_ms.copy()
    read_at_ms[at] = np.maximum(read_at_ms[at], columns["read_at_ms"])
    listed_at_ms[at] = at_ms
    groups = replace(table, **written, read_at_ms=read_at_ms, listed_at_ms=listed_at_ms)
    return _listed(_without_past_offsets(state.with_tables(groups)), frame.header)


@ingest(GroupOffsetsFrame)
def take_group_offsets(state: ShardState, frame: Frame) -> ShardState:
    """Rows that were read later replace those of the same group and partition."""
    header, rows = frame.header, frame.rows
    state, row = rows_of(state, rows, create=state.listing.whole_at_ms < header.observed_at_ms)
    named = rows.column("group").combine_chunks()
    names = object_array(named.dictionary.to_pylist())
    refuse_duplicates(names, "group")
    state, place = _with_groups(state, names, _whole_at_ms(state) < header.observed_at_ms)
    group = np.append(place, UNKNOWN)[named.indices.to_numpy()]
    read_at_ms = to_numpy(rows.column("read_at_ms"))
    known_at_ms = np.append(state[Groups].read_at_ms, UNKNOWN)[group]
    taken = (row >= 0) & (group >= 0) & (read_at_ms >= known_at_ms)
    key = keys.pack(row, group)
    _refuse_repeated(key if taken.all() else key[taken])
    table = state[GroupOffsets]
    table_key = keys.pack(table.row, table.group_index)
    place = keys.find_sorted(table_key, key)
    taken &= read_at_ms > np.append(table.read_at_ms, UNKNOWN)[place]
    state, rack = _with_racks(state, rows.column("rack").combine_chunks())
    if not taken.any():
        return state
    news = GroupOffsets(
        row=row.astype(np.int32),
        group_index=group.astype(np.int32),
        committed_offset=to_numpy(rows.column("committed_offset")),
        read_at_ms=read_at_ms,
        assigned=to_numpy(rows.column("assigned")),
        rack_index=rack,
    )
    if not taken.all():
        news, key = news.pick(taken), key[taken]
    return _with_offsets(state, table_key, news, key)


# ---------------------------------------------------------------- offsets


def _with_offsets(
    state: ShardState, table_key: Array, news: GroupOffsets, key: Array
) -> ShardState:
    """The state with those rows in place of others of the same group and partition."""
    table = state[GroupOffsets]
    stays = np.ones(len(table), bool)
    place = keys.find_sorted(table_key, key)
    stays[place[place != UNKNOWN]] = False
    if not stays.any() and (np.diff(key) > 0).all():
        return state.with_tables(news)
    both = zip(table.values(), news.values(), strict=True)
    order = np.argsort(np.concatenate([table_key[stays], key]), kind="stable")
    joined = GroupOffsets.from_values(np.concatenate([old[stays], new])[order] for old, new in both)
    return state.with_tables(joined)


def _without_past_offsets(state: ShardState) -> ShardState:
    """Drop offsets that were missing when the offsets of their group were last read."""
    offsets = state[GroupOffsets]
    is_past = offsets.read_at_ms < state[Groups].read_at_ms[offsets.group_index]
    if not is_past.any():
        return state
    return state.with_tables(offsets.pick(~is_past))


def _refuse_repeated(key: Array) -> None:
    if (np.diff(key) > 0).all():  # a collector sends them in order
        return
    if (np.diff(np.sort(key)) == 0).any():
        raise InvalidFrame("rows", "a partition of a group is listed twice")


# ---------------------------------------------------------------- groups


def _with_groups(state: ShardState, names: Array, create: bool) -> tuple[ShardState, Array]:
    """The state with a row for each name, and [N] that row; UNKNOWN where it is not created."""
    table = state[Groups]
    place = {name: i for i, name in enumerate(table.group)}
    new = [name for name in names if name not in place] if create else []
    if new:
        after = sorted([*place, *new])
        now_at = {name: i for i, name in enumerate(after)}
        moved = np.array([now_at[name] for name in table.group], np.int32)
        columns = {}
        for c in Groups.columns:
            columns[c.name] = values = blank(c, len(after))
            values[moved] = getattr(table, c.name)
        columns["group"] = object_array(after)
        state, place = _renumbered(state.with_tables(Groups(**columns)), moved), now_at
    return state, np.array([place.get(name, UNKNOWN) for name in names], np.intp)


def _renumbered(state: ShardState, moved: Int32) -> ShardState:
    """The state with ``moved[i]`` in place of group i in all offsets."""
    offsets = state[GroupOffsets]
    if not len(offsets):
        return state
    return state.with_tables(replace(offsets, group_index=moved[offsets.group_index]))


def _without_groups(state: ShardState, gone: Bool) -> ShardState:
    offsets = state[GroupOffsets]
    state = state.with_tables(state[Groups].pick(~gone), offsets.pick(~gone[offsets.group_index]))
    moved = (np.cumsum(~gone) - 1).astype(np.int32)
    return _renumbered(state, moved)


def _whole_at_ms(state: ShardState) -> int:
    return int(state[GroupListing].whole_at_ms.max(initial=UNKNOWN))


def _listed(state: ShardState, header: FrameHeader) -> ShardState:
    """Note the part of the listing; drop groups that a complete listing did not name."""
    at_ms, listing = header.observed_at_ms, state[GroupListing]
    if not header.complete:
        return state
    is_this = bool((listing.at_ms == at_ms).any())
    bits = int.from_bytes(listing.parts_seen[0], "little") if is_this else 0
    bits |= 1 << header.part
    is_whole = bits == (1 << header.parts) - 1
    noted = b"" if is_whole else bits.to_bytes((bits.bit_length() + 7) // 8, "little")
    state = state.with_tables(
        GroupListing(
            at_ms=np.array([at_ms], np.int64),
            parts_seen=object_array([noted]),
            whole_at_ms=np.array([at_ms if is_whole else _whole_at_ms(state)], np.int64),
        )
    )
    gone = state[Groups].listed_at_ms < at_ms
    return _without_groups(state, gone) if is_whole and gone.any() else state


FORMER_STAYS_MS: Final = 7 * 86_400_000
"""Kafka forgets the offsets of a group without members after seven days by default."""


@expiry
def recent_former_offsets(former: FormerOffsets, cycle: Cycle) -> FormerOffsets:
    """Drop what groups committed to topics that were deleted long ago."""
    recent = cycle.observed_at_ms - former.read_at_ms <= FORMER_STAYS_MS
    return former if recent.all() else former.pick(recent)


# ---------------------------------------------------------------- racks of members


@expiry
def used_racks(racks: ReaderRacks, offsets: GroupOffsets) -> ReaderRacks:
    """Drop racks that no member is in any more."""
    used = _used(racks, offsets)
    return racks if used.all() else racks.pick(used)


@expiry
def offsets_with_used_racks(racks: ReaderRacks, offsets: GroupOffsets) -> GroupOffsets:
    """Point the offsets to the rows that their racks have after ``used_racks``."""
    used = _used(racks, offsets)
    return offsets if used.all() else _with_rack_rows(offsets, np.cumsum(used) - 1)


def _used(racks: ReaderRacks, offsets: GroupOffsets) -> Bool:
    """[K] a member is in that rack."""
    used = np.zeros(len(racks.rack) + 1, bool)
    used[offsets.rack_index] = True
    return used[:-1]


def _with_rack_rows(offsets: GroupOffsets, moved: Array) -> GroupOffsets:
    """The offsets with ``moved[i]`` in place of rack row i."""
    to = np.append(moved, UNKNOWN).astype(np.int32)
    return replace(offsets, rack_index=to[offsets.rack_index])


def _with_racks(state: ShardState, named: pa.DictionaryArray) -> tuple[ShardState, Int32]:
    """The state with all racks of a frame, and [N] the place of each row's rack.

    Racks of unused rows are included; otherwise the state would depend on the order of frames.
    """
    names, racks = named.dictionary.to_pylist(), state[ReaderRacks].rack
    after = sorted({*racks, *names} - {""})
    place = {name: i for i, name in enumerate(after)}
    at = np.array([place.get(name, UNKNOWN) for name in names], np.int32)
    if len(after) > len(racks):
        moved = np.array([place[name] for name in racks], np.int32)
        state = state.with_tables(
            ReaderRacks(object_array(after)), _with_rack_rows(state[GroupOffsets], moved)
        )
    return state, at[named.indices.to_numpy()]
