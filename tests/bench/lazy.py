"""What it would save to compute a rule only where a table that it reads has changed.

A rule's signature names tables and the time. Of two cycles, one busy (each partition written) and
one idle, this prints how many rules would be left out, their share of the CPU time of all rules,
and the share of rules that read the time. Comparing the tables is not counted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from tests.bench import figure
from tests.bench.deployment import START_MS
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.declarations.declare import Rule
from twin.declarations.signature import Parameter, Reads, without_groups
from twin.declarations.table import KAFKA, Array, Table
from twin.engine.shard_state import ShardState
from twin.step import step

PARTITIONS: Final = (430, 13_000)
CYCLES: Final = 20
WRITTEN: Final = 8
"""Cycles in which the idle cluster is written at first."""

TIMES: Final = 10
INTERVAL_MS: Final = 5_000


def main() -> None:
    """Print the figures of both sizes, busy and idle."""
    for partitions in PARTITIONS:
        for is_busy in (True, False):
            before, after = _two_cycles(partitions, is_busy)
            _compare(before, after, partitions=partitions, cycle="busy" if is_busy else "idle")


def _two_cycles(partitions: int, is_busy: bool) -> tuple[ShardState, ShardState]:
    shape = Shape(topics=10, partitions=partitions // 10, replication=3, brokers=5)
    shard = SimulatedShard(shape, 1)
    before = after = ShardState.empty(CATALOG, "sim", 0, 1)
    for cycle in range(CYCLES):
        if is_busy or cycle < WRITTEN:
            shard.traffic(INTERVAL_MS)
        at_ms = START_MS + cycle * INTERVAL_MS
        before, (after, _) = after, step(after, shard.observe(at_ms), at_ms)
    return before, after


def _compare(before: ShardState, after: ShardState, **about: object) -> None:
    rules = list(CATALOG.rules.values())
    spent_s = {rule: _cpu_s(rule, after) for rule in rules}
    left_out = [rule for rule in rules if _is_as_before(rule, before, after)]
    timed = [rule for rule in rules if any(p.reads in _TIMES for p in without_groups(rule.reads))]
    all_s = sum(spent_s.values())
    figure("lazy_rules_left_out", len(left_out), "rules", rules=len(rules), **about)
    share = sum(spent_s[rule] for rule in left_out) / all_s
    figure("lazy_share_of_rules_cpu_left_out", share, "1", ms=round(all_s * 1e3, 2), **about)
    figure("lazy_rules_that_read_the_time", len(timed), "rules", rules=len(rules), **about)


_TIMES: Final = frozenset({Reads.TIME, Reads.CYCLE})


def _cpu_s(rule: Rule, state: ShardState) -> float:
    """CPU time of the rule alone: what it reads is there."""
    arguments = state.arguments(rule.reads)
    began = time.process_time()
    for _ in range(TIMES):
        rule.compute(**arguments)
    return (time.process_time() - began) / TIMES


def _is_as_before(rule: Rule, before: ShardState, after: ShardState) -> bool:
    return all(
        parameter.reads not in _TIMES
        and all(map(_same, _tables(parameter, before), _tables(parameter, after)))
        for parameter in without_groups(rule.reads)
    )


def _tables(parameter: Parameter, state: ShardState) -> Iterator[Table]:
    table = parameter.table
    assert table is not None  # only time and cycle have none
    if parameter.reads is Reads.BEFORE:
        yield state.of_before(table)
    elif parameter.reads is Reads.EACH_RULE:
        yield from (state[table.under(name)] for name in state.catalog.election_rules or (KAFKA,))
    else:
        yield state[table]


def _same(one: Table, other: Table) -> bool:
    pairs = zip(one.values(), other.values(), strict=True)
    return one is other or all(_same_values(*pair) for pair in pairs)


def _same_values(one: Array, other: Array) -> bool:
    if one.dtype == object:
        return bool(one.tolist() == other.tolist())
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))
