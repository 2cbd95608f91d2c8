"""Open transactions that keep the last stable offset below the high watermark."""

from dataclasses import replace

from tests.builders import NOW_MS, Log, Partition, a_state
from tests.reading import open_risks
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.rules.partitions.leaders import Leaders
from twin.rules.reading.open_transactions import LONG_MS, OpenTransactions
from twin.totals import shard_totals

INTERVAL_MS = 5_000
BEGAN_MS = NOW_MS + INTERVAL_MS


def stable_at(offset: int, end: int = 100, **more) -> Partition:
    return Partition(logs={1: Log(end=end, last_stable=offset)}, log=Log(end=end), **more)


def cycle(state: ShardState, part: Partition, after_ms: int = INTERVAL_MS) -> ShardState:
    return a_state(part, since=state, at_ms=state.observed_at_ms + after_ms)


def held(state: ShardState) -> list[tuple[int, int, int]]:
    table = state[OpenTransactions]
    columns = (table.since_ms, table.held_ms, table.records_held)
    return list(zip(*(values.tolist() for values in columns), strict=True))


def test_a_transaction_is_open_while_the_last_stable_offset_stays_below_the_watermark():
    state = cycle(a_state(stable_at(100)), stable_at(60))
    assert held(state) == [(BEGAN_MS, 0, 40)]
    state = cycle(state, stable_at(60, end=120))
    assert held(state) == [(BEGAN_MS, INTERVAL_MS, 60)]
    assert shard_totals(state).value("kafka_twin_transaction_held_records") == 60
    assert held(cycle(state, stable_at(120, end=120))) == []


def test_the_risk_opens_after_two_minutes_and_not_before():
    state = cycle(a_state(stable_at(100)), stable_at(60))
    state = cycle(state, stable_at(60), LONG_MS - 1)
    assert "transaction_open" not in open_risks(state)
    state = cycle(state, stable_at(60), 1)
    assert "transaction_open" in open_risks(state)


def test_an_offset_that_moves_is_held_by_another_transaction():
    state = a_state(stable_at(50))
    for offset in range(51, 90):
        state = cycle(state, stable_at(offset))
        assert [held_ms for _, held_ms, _ in held(state)] == [0]
    assert "transaction_open" not in open_risks(state)


def test_a_leader_that_does_not_answer_lets_no_time_pass():
    state = cycle(a_state(stable_at(100)), stable_at(60))
    state = cycle(state, stable_at(60, silent=(1,)), 2 * LONG_MS)
    assert held(state) == [(BEGAN_MS, 0, 40)]
    assert "transaction_open" not in open_risks(state)
    state = cycle(state, stable_at(60))
    assert "transaction_open" in open_risks(state), "it answers, and nothing has moved"


def test_without_an_answer_about_it_nothing_is_said():
    state = cycle(a_state(), Partition())
    assert state[Leaders].last_stable_offset.tolist() == [UNKNOWN]
    assert held(state) == []


def test_a_new_leader_that_says_nothing_of_it_ends_what_the_old_one_said():
    state = cycle(cycle(a_state(stable_at(100)), stable_at(60)), stable_at(60))
    state = cycle(state, replace(stable_at(60), leader=2, epoch=2))
    assert held(state) == []


def test_records_that_no_replica_of_the_isr_lacks_are_held_by_a_transaction_alone():
    """Records that a slow member of the ISR lacks are not below the high watermark."""
    part = Partition(logs={1: Log(end=100, last_stable=60), 2: Log(end=60)})
    assert held(cycle(a_state(part), part)) == []
