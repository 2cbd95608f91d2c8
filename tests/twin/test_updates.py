"""An update brings a reader from one state to the next: to the bit, in a fraction of the bytes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import NOW_MS, Partition, a_state
from tests.examples import examples
from tests.simulator.shard import Shape, SimulatedShard
from tests.twin.test_codec import rewritten, simulated, upgraded
from twin.builtin import CATALOG
from twin.engine import codec, updates
from twin.engine.codec import DecodedState
from twin.engine.frames import InvalidFrame, streams
from twin.engine.risks import RiskStates
from twin.engine.shard_state import ShardState
from twin.rules.partitions.growth import Growth
from twin.step import step
from twin.tables.state import Replicas

ID = b"i" * 16


def cycles(shape: Shape, seed: int, count: int) -> list[ShardState]:
    """A shard after each cycle; each steps the state that a reader has of the one before."""
    state, states = ShardState.empty(CATALOG, "sim", 0, 1), []
    for observation in SimulatedShard(shape, seed).run(count, NOW_MS):
        state, _ = step(state, observation, observation[0].header.observed_at_ms)
        states.append(state)
        state = codec.decode(codec.encode(state), CATALOG).state
    return states


def update(before: ShardState, after: ShardState) -> bytes:
    made = updates.encode(before, after, ID, 1)
    assert made is not None
    return made


def columns(message: bytes) -> set[str]:
    return {name for _, rows in streams(message) for name in rows.column_names}


@given(
    seed=st.integers(0, 10_000),
    groups=st.integers(0, 2),
    fetches=st.booleans(),
    replication=st.integers(1, 4),
)
@examples(40)
def test_a_chain_of_updates_gives_the_bytes_of_every_whole_state(
    seed, groups, fetches, replication
):
    shape = Shape(topics=2, partitions=3, replication=replication, groups=groups, fetches=fetches)
    first, *states = cycles(shape, seed, 8)
    known = codec.decode(codec.encode(first), CATALOG)
    for state in states:
        message = updates.encode(known.state, state, ID, 1)
        if message is None:
            known = codec.decode(codec.encode(state), CATALOG)
            continue
        # Whoever kept the state that was stepped makes the same update as who decoded it.
        kept = replace(first, judged_at_ms=first.observed_at_ms)
        assert updates.encode(kept, state, ID, 1) == message
        known = updates.applied(message, known)
        assert codec.encode(known.state) == codec.encode(state)
        first = state


def test_a_cycle_of_traffic_takes_less_than_half_of_the_bytes():
    shard = SimulatedShard(Shape(topics=4, partitions=500, brokers=20))
    state, sizes = ShardState.empty(CATALOG, "sim", 0, 1), []
    for cycle in range(6):
        at_ms = NOW_MS + cycle * 5_000
        shard.traffic(5_000)
        after, _ = step(state, shard.observe(at_ms), at_ms)
        if cycle > 2:
            sizes.append((len(update(state, after)), len(codec.encode(after))))
        state = after
    assert all(sent < whole / 2 for sent, whole in sizes), sizes


def test_a_cycle_in_which_nothing_moved_sends_no_offsets_and_no_findings():
    before = a_state(Partition(), at_ms=NOW_MS)
    before = a_state(Partition(), at_ms=NOW_MS + 5_000, since=before)
    after = a_state(Partition(), at_ms=NOW_MS + 10_000, since=before)
    sent = columns(update(before, after))
    assert "replicas.sampled_at_ms" in sent
    assert not {name for name in sent if "offset" in name or "next_leader" in name}


@pytest.mark.parametrize(
    ("before", "after", "type_sent"),
    [
        (1_000, 1_127, pa.int8()),
        (1_000, 872, pa.int8()),
        (1_000, 1_128, pa.int16()),
        (-1, 1 << 31, pa.int64()),
        (0, (1 << 31) - 1, pa.int32()),
        (0, 1 << 31, pa.int64()),
        ((1 << 63) - 1, -(1 << 63), pa.int8()),  # one apart, modulo 2^64
    ],
)
def test_differences_have_the_narrowest_type_that_holds_them_and_add_up(before, after, type_sent):
    state = a_state(Partition(replicas=(1, 2)))

    def with_end(offset: int) -> ShardState:
        ends = np.full_like(state[Replicas].log_end_offset, offset)
        return state.with_tables(replace(state[Replicas], log_end_offset=ends))

    one, other = with_end(before), with_end(after)
    message = update(one, other)
    sent = {f.name: f.type for _, rows in streams(message) for f in rows.schema}
    assert sent["replicas.log_end_offset"] == type_sent
    known = updates.applied(message, DecodedState(one)).state
    assert known[Replicas].log_end_offset.tolist() == [[after, after]]


def test_not_a_number_is_the_same_as_before_and_may_become_a_number():
    state = a_state(Partition())
    unknown = state.with_tables(Growth(np.array([np.nan])))
    assert "growth.appended_records_per_s" not in columns(update(unknown, unknown))
    known = state.with_tables(Growth(np.array([1.5])))
    for one, other in ((unknown, known), (known, unknown)):
        after = updates.applied(update(one, other), DecodedState(one)).state
        np.testing.assert_array_equal(
            after[Growth].appended_records_per_s, other[Growth].appended_records_per_s
        )


@pytest.mark.parametrize(
    "after",
    [
        [Partition(), Partition("u")],
        [Partition(replicas=(1, 2))],
        [Partition(replicas=(1, 2, 3, 4))],
    ],
)
def test_there_is_no_update_when_partitions_or_replicas_come_or_go(after):
    one = a_state(Partition(replicas=(1, 2, 3)))
    assert updates.encode(one, a_state(*after), ID, 1) is None


def test_a_replica_that_replaces_another_is_an_update():
    one, other = a_state(Partition(replicas=(1, 2))), a_state(Partition(replicas=(1, 3)))
    known = updates.applied(update(one, other), DecodedState(one)).state
    assert codec.encode(known) == codec.encode(other)


def test_a_table_without_rows_left_is_sent_as_empty():
    one, other = a_state(Partition(isr=(1,))), a_state(Partition())
    assert len(one[RiskStates]) > len(other[RiskStates]) == 0
    known = updates.applied(update(one, other), DecodedState(one)).state
    assert codec.encode(known) == codec.encode(other)


def test_the_link_names_what_is_continued_and_whole_states_have_none():
    state = a_state(Partition())
    link = updates.link_of(updates.encode(state, state, ID, 7) or b"")
    assert link is not None
    assert (link.since, link.number, link.header.shard) == (ID, 7, 0)
    assert updates.link_of(codec.encode(state)) is None
    with pytest.raises(InvalidFrame, match="bytes"):
        updates.link_of(b"garbage")


def test_an_update_of_other_rows_is_refused():
    one = a_state(Partition(), Partition("u"))
    moved = a_state(Partition(), Partition("u"), at_ms=NOW_MS + 5_000, since=one)
    with pytest.raises(InvalidFrame, match="rows"):
        updates.applied(update(one, moved), DecodedState(a_state(Partition())))


def test_a_whole_state_is_no_update_and_an_update_no_whole_state():
    state = a_state(Partition())
    with pytest.raises(InvalidFrame, match="an update begins with"):
        updates.applied(codec.encode(state), DecodedState(state))
    with pytest.raises(InvalidFrame, match="kind"):
        codec.decode(update(state, state), CATALOG)


def test_an_update_without_its_link_is_refused():
    state = a_state(Partition())

    def unlinked(metadata: dict[str, str], rows: pa.Table) -> pa.Table:
        metadata.pop("since", None)
        return rows

    with pytest.raises(InvalidFrame, match="header"):
        updates.link_of(rewritten(update(state, state), unlinked))


def test_a_column_of_a_type_that_is_no_difference_is_refused():
    one = a_state(Partition())
    other = a_state(Partition(), at_ms=NOW_MS + 5_000, since=one)

    def as_text(_: dict[str, str], rows: pa.Table) -> pa.Table:
        name = "replicas.sampled_at_ms"
        if name not in rows.column_names:
            return rows
        at = rows.column_names.index(name)
        return rows.set_column(at, name, pa.array(["x"] * rows.num_rows))

    with pytest.raises(InvalidFrame, match="columns: sampled_at_ms is string"):
        updates.applied(rewritten(update(one, other), as_text), DecodedState(one))


def test_tables_of_another_version_stay_discarded_through_updates():
    theirs, ours = upgraded(2), upgraded(1)
    one, other = (simulated(theirs, cycles=count) for count in (3, 4))
    known = codec.decode(codec.encode(one), ours)
    assert len(known.discarded) >= 4
    after = updates.applied(update(one, other), known)
    assert after.discarded == known.discarded
    expected = codec.decode(codec.encode(other), ours).state
    assert codec.encode(after.state) == codec.encode(expected)


def test_each_shard_sends_a_whole_state_in_a_cycle_of_its_own_and_at_once_when_cycles_begin_anew():
    every = updates.WHOLE_EVERY_CYCLES
    due = [
        [cycle for cycle in range(1, 3 * every) if updates.is_whole_due(cycle - 1, cycle, shard)]
        for shard in range(every)
    ]
    assert len({cycles[0] for cycles in due}) == every
    assert {late - early for cycles in due for early, late in pairwise(cycles)} == {every}
    assert updates.is_whole_due(100 * every, 1, 0)
