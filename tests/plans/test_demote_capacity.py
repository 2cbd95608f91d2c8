"""Leaderships go to brokers that can carry them, where capacities are set."""

from __future__ import annotations

from collections import Counter

import pytest

from streaming.bus import record
from streaming.bus.view import SnapshotStore
from streaming.plans.demote import plan_demote
from streaming.plans.plan import Plan
from tests.scope import played
from tests.twin.test_load_after_loss import cycles
from twin.builtin import CATALOG
from twin.declarations.table import UNKNOWN
from twin.engine import codec

RATES = [((1, 2, 3), 100)] * 4 + [((2, 1, 3), 100)]
"""Broker 1 leads 400 B/s, 2 leads 100, 3 none; each of 2 and 3 can take over all."""


def plan(capacity: dict[int, tuple[int, int]], shards: int = 1, **more: object) -> Plan:
    topics = [f"t{n}" for n in range(len(RATES))]
    observed = list(cycles(RATES, capacity, **more))
    cluster = observed[0][0][0].header.cluster
    store = SnapshotStore(CATALOG, cluster, shards)
    for shard in range(shards):
        state = played(CATALOG, observed, shard, shards, frozenset(topics[shard::shards]))
        assert store.take_snapshot(record.key(cluster, shard), codec.encode(state))
    return plan_demote(store.publish(), observed[-1][1], 1)


def elected(made: Plan) -> Counter[int]:
    return Counter(change.elect for change in made.changes if change.leader == 1)


def said(made: Plan) -> list[str]:
    return [line for line in made.lines if "capacity" in line]


@pytest.mark.parametrize("shards", [1, 3])
def test_a_broker_that_could_not_carry_its_part_gets_none(shards: int):
    even = plan({}, shards)
    assert elected(even)[2] > 0
    assert said(even) == []
    spared = plan({2: (150, UNKNOWN)}, shards)
    assert elected(spared) == {3: 4}
    assert said(spared) == []


def test_where_every_spread_is_too_much_the_least_is_planned_and_it_is_said():
    made = plan({2: (150, UNKNOWN), 3: (150, UNKNOWN)})
    assert sum(elected(made).values()) == 4
    [line] = said(made)
    assert line.startswith("No spread keeps every broker within its capacity: then above it broker")
    assert "400 %" not in line


def test_what_a_broker_measures_counts():
    measured = {2: {"bytes_in_per_s": 900.0}}
    assert elected(plan({2: (1_000, UNKNOWN)}, metrics=measured)) == {3: 4}
    assert elected(plan({2: (2_000, UNKNOWN)}, metrics=measured))[2] > 0
