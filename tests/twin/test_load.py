"""What shifts by a loss is what a loop over partitions finds, by the leaders of ``whatif lose``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import (
    NOW_MS,
    Group,
    Log,
    Partition,
    a_state,
    broker_metrics_frame,
    configs_frame,
    group_offsets_frame,
    groups_frame,
)
from tests.cycles import cycle_frames
from tests.examples import examples
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.declarations.signature import parameters
from twin.declarations.table import KAFKA, UNKNOWN
from twin.engine.shard_state import ShardState
from twin.questions import whatif
from twin.questions.load import Load, above_capacity, load_at_once, load_in_turn
from twin.rules.brokers.brokers import is_silent
from twin.rules.election.next_leader import Candidates
from twin.rules.groups.loss import reads_then, servers_after_loss
from twin.rules.groups.moves import GroupMoves
from twin.rules.groups.reads import GroupReads, GroupServers, ReadsFrom, Servers
from twin.rules.load.amounts import (
    IN,
    LEADERS,
    OUT,
    QUANTITIES,
    REMOTE,
    REPLICATION_IN,
    REPLICATION_OUT,
    Amounts,
)
from twin.rules.load.forecast import at_once, exceeds, in_turn
from twin.rules.load.rates import AppendedBytes, GroupBytes
from twin.rules.load.shifts import Shifts
from twin.rules.partitions.growth import RecordSizes
from twin.rules.partitions.leaders import Roles
from twin.step import step
from twin.tables.state import Assignment, Brokers, GroupOffsets, Partitions

BROKERS = 6
IDS = np.arange(1, BROKERS + 1, dtype=np.int32)

Carried = dict[tuple[int, int], list[int]]
"""By quantity and broker: what is known, and how many parts are unknown."""


def add(carried: Carried, quantity: int, broker: int, value: float) -> None:
    entry = carried[quantity, broker]
    entry[0 if value == value else 1] += int(value) if value == value else 1


def one_by_one(state: ShardState, gone: Sequence[int], rule: str = KAFKA) -> Carried:
    """What each broker carries without those, partition by partition; with nobody gone, now."""
    loss = whatif.lose(state, gone)
    moved = dict(zip(loss.row.tolist(), loss.next_leaders[rule].leader.tolist(), strict=True))
    assignment, roles, brokers = state[Assignment], state[Roles], state[Brokers]
    silent = set(brokers.broker[is_silent(brokers, state.observed_at_ms)].tolist())
    carried: Carried = defaultdict(lambda: [0, 0])
    leaders = state[Partitions].leader.copy()
    for row in range(state.partitions):
        now = int(leaders[row])
        leader = leaders[row] = moved[row] if now in gone else now
        if leader < 0:
            continue
        followers = [
            int(broker)
            for slot, broker in enumerate(assignment.broker[row])
            if roles.is_assigned[row, slot]
            and state[Candidates].is_acceptable[row, slot]
            and broker not in (*silent, *gone, leader)
            and broker != now
        ]
        rate = float(state[AppendedBytes].appended_bytes_per_s[row])
        add(carried, LEADERS, leader, 1)
        add(carried, IN, leader, rate)
        for broker in followers:
            add(carried, REPLICATION_IN, broker, rate)
            add(carried, REPLICATION_OUT, leader, rate)
    _groups(carried, state, gone, leaders)
    return carried


def _groups(carried: Carried, state: ShardState, gone: Sequence[int], leaders: np.ndarray) -> None:
    servers = Servers(**state.arguments(parameters(Servers)))
    lost = np.isin(servers.assignment.broker, gone)
    after = servers_after_loss(leaders, lost, servers, state[Partitions])
    moves, reads, sizes = state[GroupMoves], state[GroupReads], state[RecordSizes]
    rack = servers.reader_racks(state[GroupOffsets])
    _, server, source, records, *_ = reads_then(after, moves, reads, rack, sizes)
    for i, row in enumerate(moves.row.tolist()):
        lead, serves, rate = int(leaders[row]), int(server[i]), state[GroupBytes].read_bytes_per_s
        if lead < 0:
            continue
        known = serves >= 0 and state[GroupServers].broker[i] >= 0
        at = serves if serves >= 0 else lead
        add(carried, OUT, at, float(rate[i]) if known else np.nan)
        bytes_each = float(sizes.bytes_per_record[row])
        if records[i] == UNKNOWN:
            remote = 0.0 if source[i] == ReadsFrom.NOBODY else np.nan
        else:
            remote = 0.0 if records[i] == 0 else float(np.rint(records[i] * bytes_each))
        add(carried, REMOTE, at, remote)


def simulated(seed: int, lost: Sequence[int], replication: int, groups: int) -> ShardState:
    """A state with rates, after losses; with four cycles most offsets of groups were read twice."""
    shape = Shape(topics=2, partitions=4, replication=replication, brokers=BROKERS,
                  cold_share=0.3, groups=groups, written_share=0.8)  # fmt: skip
    shard, state = SimulatedShard(shape, seed), ShardState.empty(CATALOG, "sim", 0, 1)
    for cycle in range(1 + seed % 4):
        if cycle == 1:
            for broker in lost:
                shard.lose(broker)
        shard.traffic(5_000)
        at_ms = NOW_MS + cycle * 5_000
        state, _ = step(state, shard.observe(at_ms), at_ms)
    return state


def agrees(amounts: Amounts, expected: Carried, gone: Sequence[int]) -> None:
    for quantity, name in enumerate(QUANTITIES):
        for i, broker in enumerate(IDS.tolist()):
            if broker not in gone:
                found = [int(amounts.known[quantity, i]), int(amounts.unknown[quantity, i])]
                assert found == expected[quantity, broker], (name, broker, gone)


def after(load: Load, rule: str, lost: int | None = None) -> Amounts:
    """Now and what shifts: by the loss of the broker in that place, or of all at once."""

    def of(part: Amounts) -> Amounts:
        if lost is None:
            return Amounts(part.known.sum(axis=1), part.unknown.sum(axis=1))
        return Amounts(part.known[:, lost], part.unknown[:, lost])

    shifts = load.shifts[rule]
    return load.now + of(shifts.gained) - of(shifts.dropped)


@examples(300)
@given(
    seed=st.integers(0, 10**6),
    lost=st.sets(st.integers(1, BROKERS), max_size=2),
    replication=st.integers(1, 4),
    groups=st.sampled_from([0, 3]),
    several=st.sets(st.integers(1, BROKERS), min_size=1, max_size=3),
)
def test_each_sum_is_that_of_a_loop_over_partitions(seed, lost, replication, groups, several):
    state = simulated(seed, sorted(lost), replication, groups)
    in_turn_, rules = load_in_turn(state, IDS), list(state.catalog.election_rules)
    agrees(in_turn_.now, one_by_one(state, []), [])
    gone = sorted(several)
    loss = whatif.lose(state, gone)
    together = load_at_once(state, IDS, gone, loss, rules)
    for rule in rules:
        agrees(after(together, rule), one_by_one(state, gone, rule), gone)
        for i, broker in enumerate(IDS.tolist()):
            agrees(after(in_turn_, rule, i), one_by_one(state, [broker], rule), [broker])


def test_shards_add_up():
    state = simulated(3, [2], 3, 3)
    rows = np.arange(state.partitions)
    whole = load_in_turn(state, IDS)
    parts = [load_in_turn(state.take(rows[n::3]), IDS) for n in range(3)]
    total = parts[0] + parts[1] + parts[2]
    np.testing.assert_array_equal(total.now.known, whole.now.known)
    for rule, shifts in whole.shifts.items():
        for one, other in (
            (shifts.gained, total.shifts[rule].gained),
            (shifts.dropped, total.shifts[rule].dropped),
        ):
            np.testing.assert_array_equal(one.known, other.known)
            np.testing.assert_array_equal(one.unknown, other.unknown)


# ---------------------------------------------------------------- by hand


def written(
    rates: Sequence[tuple[tuple[int, ...], int]], *, read: Sequence[int] = (),
    metrics: dict[int, dict[str, float]] | None = None,
    capacity: dict[int, tuple[int, int]] | None = None, new: Sequence[tuple[int, ...]] = (),
) -> ShardState:  # fmt: skip
    """Partitions with those replicas and bytes a second, in records of 1 B.

    Groups read those with the numbers ``read`` as fast; ``new`` ones were seen once.
    """
    state = None
    for at_s in (0, 10):
        parts = [
            Partition("t", n, replicas, log=Log(end=size, size_bytes=size))
            for n, (replicas, rate) in enumerate(rates)
            for size in [1_000 + rate * at_s]
        ]
        if at_s:
            parts += [Partition("t", 50 + n, each) for n, each in enumerate(new)]
        at_ms = NOW_MS + at_s * 1_000
        groups = [Group("g", [(parts[n], 1_000 + rates[n][1] * at_s) for n in read])]
        frames = [
            *cycle_frames(parts, at_ms, ids=(1, 2, 3), capacity=capacity, has_racks=False),
            configs_frame(at_ms=at_ms),
        ]
        if read:
            frames += [groups_frame(groups, at_ms), group_offsets_frame(groups, at_ms)]
        if metrics:
            frames.append(broker_metrics_frame(metrics, at_ms))
        state = step(state or ShardState.empty(CATALOG, "c", 0, 1), frames, at_ms)[0]
    assert state is not None
    return state


def test_a_new_leader_takes_the_producers_and_no_longer_copies():
    state = written([((1, 2, 3), 100)], read=[0])
    load = load_in_turn(state, np.array([1, 2, 3], np.int32))
    now, then = load.now.known, after(load, KAFKA, 0).known
    assert now[:, 0].tolist() == [1, 100, 0, 200, 100, 0]
    assert now[:, 1].tolist() == [0, 0, 100, 0, 0, 0]
    assert then[:, 1].tolist() == [1, 100, 0, 100, 100, 0]
    assert then[:, 2].tolist() == [0, 0, 100, 0, 0, 0]


def in_turn_by(state: ShardState, by_brokers: np.ndarray):
    load = load_in_turn(state, np.array([1, 2, 3], np.int32))
    return in_turn(load.now, load.shifts[KAFKA], by_brokers)


def rates(**by_quantity: Sequence[float]) -> np.ndarray:
    values = np.full((len(QUANTITIES), 3), np.nan)
    for name, each in by_quantity.items():
        values[QUANTITIES.index(name)] = each
    return values


def test_shares_are_scaled_to_what_the_lost_broker_measures():
    state = written([((1, 2, 3), 100), ((1, 3, 2), 50), ((2, 1, 3), 80)])
    nan = np.nan
    found = in_turn_by(state, rates(bytes_in_per_s=[300, 90, nan]))
    # Of 300 that broker 1 measures, two thirds are of the partition that goes to broker 2.
    assert found.now.known[IN].tolist() == [300, 90, 0]
    assert found.then.known[IN, 0].tolist()[1:] == [290, 100]
    assert found.then.known[IN, 1].tolist() == [390, 0 + 90, 0]
    assert found.is_measured[IN].tolist() == [True, True, False]


def test_what_is_measured_and_has_no_share_goes_with_what_the_broker_leads():
    state = written([((1, 2, 3), 100), ((1, 3, 2), 50)])
    found = in_turn_by(state, rates(bytes_out_per_s=[600, 0, 0]))
    assert found.then.known[OUT, 0].tolist()[1:] == [400, 200]
    idle = written([((1, 2, 3), 0), ((1, 3, 2), 0)])
    found = in_turn_by(idle, rates(bytes_in_per_s=[10, 0, 0]))
    assert found.then.known[IN, 0].tolist()[1:] == [5, 5]


def test_an_unknown_rate_stays_unknown_now_and_where_it_goes():
    state = written([((1, 2, 3), 100)], new=[(1, 3, 2)])
    found = in_turn_by(state, rates())
    assert (found.now.known[IN, 0], found.now.unknown[IN, 0]) == (100, 1)
    assert found.then.known[IN, 0].tolist()[1:] == [100, 0]
    assert found.then.unknown[IN, 0].tolist()[1:] == [0, 1]


def test_a_sum_that_is_measured_is_known_but_what_moves_of_it_is_not():
    state = written([((1, 2, 3), 100)], new=[(1, 3, 2)])
    found = in_turn_by(state, rates(bytes_in_per_s=[150, 0, 0]))
    assert (found.now.known[IN, 0], found.now.unknown[IN, 0]) == (150, 0)
    assert found.then.unknown[IN, 0].tolist()[1:] == [0, 1]


def test_several_at_once_are_scaled_each_by_its_own_measure():
    state = written([((1, 3), 100), ((2, 3), 50)])
    loss = whatif.lose(state, [1, 2])
    ids = np.array([1, 2, 3], np.int32)
    load = load_at_once(state, ids, [1, 2], loss, [KAFKA])
    found = at_once(load.now, load.shifts[KAFKA], rates(bytes_in_per_s=[200, 25, 0]))
    assert found.then.known[IN, 0, 2] == 225


@pytest.mark.parametrize(("capacity", "above"), [(200, False), (199, True), (201, False)])
def test_a_load_exactly_at_the_capacity_is_not_above_it(capacity: int, above: bool):
    state = written([((1, 2, 3), 100), ((2, 1, 3), 100)], capacity={2: (capacity, -1)})
    names = above_capacity([state], [1])
    assert names == (["broker 2 (101 % of its capacity)"] if above else [])


def test_a_broker_that_gets_nothing_more_is_not_named_although_it_is_above_its_capacity():
    state = written([((1, 2, 3), 100), ((3, 1, 2), 500)], capacity={3: (100, -1)})
    assert above_capacity([state], [1]) == []


def test_without_a_capacity_nothing_is_judged():
    assert above_capacity([written([((1, 2, 3), 100)])], [1]) == []
    assert above_capacity([a_state()], [1]) == []


def test_an_unknown_part_may_be_above_and_what_is_known_may_be_so_surely():
    now, zero = Amounts(*np.zeros((2, 6, 2), np.int64)), np.zeros((6, 2, 2), np.int64)
    gained, unknown = zero.copy(), zero.copy()
    gained[IN, 0, 1], unknown[IN, 0, 1] = 10, 1
    shifts = Shifts(Amounts(gained, unknown), Amounts(zero, zero))
    found = in_turn(now, shifts, np.full((6, 2), np.nan))
    capacity = np.full((6, 2), np.nan)
    for limit, expected in ((10, (False, True)), (9, (True, False))):
        capacity[IN, 1] = limit
        above, may_be = exceeds(found, capacity)
        assert (above[IN, 0, 1], may_be[IN, 0, 1]) == expected
