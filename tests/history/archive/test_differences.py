"""What the archive writes of a shard, and the states that are rebuilt from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.history.archive import row_layout
from streaming.history.archive.row_layout import hour_of, rounded
from tests.examples import examples
from tests.history.archive.archived import (
    BEFORE_A_QUARTER_MS,
    INTERVAL_MS,
    MEASURED_MS,
    START_MS,
    Archived,
    an_archived,
)
from twin.builtin import CATALOG
from twin.engine import codec
from twin.engine.frames import InvalidFrame
from twin.engine.shard_state import ShardState
from twin.tables.state import Partitions, Replicas, Topics

MEASURED_EVERY = MEASURED_MS // INTERVAL_MS


def columns(state: ShardState, measurements: bool) -> dict[str, list[object]]:
    """The columns of all stored tables; those of slots without a replica do not count."""
    used, found = codec.slots_in_use(state), {}
    for table in state.catalog.stored:
        for column, values in zip(table.columns, state[table].values(), strict=True):
            if column.is_measurement == measurements:
                values = values[used] if values.ndim == 2 else values
                if column.dtype.kind == "f":
                    values = rounded(values)
                found[f"{table.kind}.{column.name}"] = values.tolist()
    return found


OF_SEGMENTS = ("lineage.", "remote_segments.", "leader_epochs.")
BY_SEGMENTS = {
    risk.name
    for risk in CATALOG.risks
    if risk.holds.__module__.endswith((".lineage", ".remote_segments"))
}


def without_segments(found: Mapping[str, list[object]], risks: Sequence[str]) -> dict[str, object]:
    """Those columns that do not follow from remote segments; ``risks`` are the catalog's names."""
    left: dict[str, object] = {
        name: values for name, values in found.items() if not name.startswith(OF_SEGMENTS)
    }
    names = [name for name in left if name.startswith("risks.")]
    rows = zip(*(found[name] for name in names), strict=True)
    number = names.index("risks.risk") if names else 0
    kept = [row for row in rows if risks[row[number]] not in BY_SEGMENTS]
    return left | {name: [row[n] for row in kept] for n, name in enumerate(names)}


def assert_decisions_equal(archived: Archived, index: int) -> None:
    expected = columns(archived.states[index], measurements=False)
    assert columns(archived.rebuilt(index), measurements=False) == expected


STARTS = pytest.mark.parametrize("start_ms", [START_MS, BEFORE_A_QUARTER_MS])


@STARTS
def test_decisions_are_those_of_each_cycle(start_ms: int):
    archived = an_archived(1, 24, start_ms, fetches=True, tier=True, groups=3)
    for index in range(24):
        assert_decisions_equal(archived, index)


def test_a_whole_state_is_that_of_the_snapshot_to_the_byte():
    archived = an_archived(seed=2, cycles=14)
    hours = [hour_of(state.observed_at_ms) for state in archived.states]
    first_of_hour = hours.index(hours[-1])
    assert first_of_hour == 10
    for index in (0, first_of_hour):
        assert codec.encode(archived.rebuilt(index)) == codec.encode(archived.states[index])


@STARTS
def test_measurements_are_those_of_their_minute(start_ms: int):
    archived = an_archived(3, 20, start_ms, groups=2)
    sampled = [i for i in range(1, 20) if (i - 10) % MEASURED_EVERY == 0 or i == 10]
    for index in sampled:
        assert columns(archived.rebuilt(index), measurements=True) == columns(
            archived.states[index], measurements=True
        )
    between = archived.rebuilt(sampled[-1] + 1)
    newest = archived.states[sampled[-1]]
    ends = [state[Replicas].log_end_offset.tolist() for state in (between, newest)]
    assert ends[0] == ends[1]


def test_a_reader_begins_with_the_update_of_its_quarter_of_an_hour():
    archived = an_archived(4, 24, BEFORE_A_QUARTER_MS, groups=2)
    before, update, later = (archived.begin(index) for index in (9, 10, 23))
    assert before.update is None
    assert update.update is not None
    assert update.at_ms == archived.states[10].observed_at_ms
    assert later == update


def test_an_update_of_another_whole_state_is_refused():
    one, other = (an_archived(seed, 11, BEFORE_A_QUARTER_MS) for seed in (1, 2))
    mixed = replace(one.begin(10), whole=other.begin(10).whole)
    with pytest.raises(InvalidFrame, match="another whole state"):
        mixed.state(CATALOG)


def test_partitions_that_came_since_the_whole_state_begin_another_one():
    archived = an_archived(5, 3, BEFORE_A_QUARTER_MS)
    archived.simulated.create_topic("another")
    for _ in range(8):
        archived.cycle()
    begin = archived.begin(10)
    assert (begin.update, begin.at_ms) == (None, archived.states[10].observed_at_ms)
    assert_decisions_equal(archived, 10)


@pytest.mark.parametrize("seed", range(4))
def test_partitions_that_come_and_go_come_and_go_in_the_archive(seed: int):
    archived = an_archived(seed, cycles=3)
    archived.simulated.create_topic("another")
    archived.cycle()
    archived.simulated.delete_topic("topic-0-1")
    archived.cycle()
    archived.simulated.delete_topic("another")
    archived.simulated.create_topic("another")  # with another id
    archived.cycle()
    archived.simulated.delete_topic("topic-0-2")
    archived.cycle()
    archived.simulated.create_topic("topic-0-2")
    archived.cycle()
    for index, state in enumerate(archived.states):
        assert archived.rebuilt(index)[Topics].topic.tolist() == state[Topics].topic.tolist()
        assert archived.rebuilt(index)[Topics].topic_id.tolist() == state[Topics].topic_id.tolist()
        assert_decisions_equal(archived, index)


@examples(30)
@given(
    st.lists(st.sampled_from(["traffic", "mishap", "create", "delete", "replace"]), max_size=12),
    st.integers(0, 1_000),
    st.sampled_from([START_MS, BEFORE_A_QUARTER_MS]),
)
def test_whatever_happens_decisions_are_those_of_each_cycle(
    happens: list[str], seed: int, start_ms: int
):
    archived = an_archived(seed, 1, start_ms, topics=2, partitions=3, brokers=4)
    simulated, number = archived.simulated, 0
    for what in happens:
        names = [name for name, _ in simulated.topics]
        match what:
            case "traffic":
                simulated.traffic(INTERVAL_MS)
            case "mishap" if names:
                simulated._mishap()
            case "create":
                number += 1
                simulated.create_topic(f"new-{number}")
            case "delete" if names:
                simulated.delete_topic(names[0])
            case "replace" if names:
                simulated.delete_topic(names[-1])
                simulated.create_topic(names[-1])
        archived.cycle()
    for index in range(len(archived.states)):
        assert_decisions_equal(archived, index)


def test_the_pieces_of_a_file_may_come_in_another_order():
    """Delta puts them in another order when it compacts several files."""
    archived = an_archived(cycles=14, topics=3, partitions=4)
    swapped = []
    for rows in archived.rows[row_layout.TABLES]:
        half = rows.num_rows // 2
        swapped.append(pa.concat_tables([rows.slice(half), rows.slice(0, half)]))
    archived.rows[row_layout.TABLES] = swapped
    for index in (9, 10, 13):
        assert_decisions_equal(archived, index)


def test_a_cycle_in_which_nothing_happens_has_a_row_of_the_cycle_alone():
    archived = an_archived(seed=5, cycles=2)
    before = {name: archived.table(name).num_rows for name in archived.rows}
    archived.cycle()
    archived.cycle()
    after = {name: archived.table(name).num_rows for name in archived.rows}
    assert after[row_layout.CYCLES] == before[row_layout.CYCLES] + 2
    assert after[row_layout.PARTITIONS] == before[row_layout.PARTITIONS]
    assert after[row_layout.REPLICAS] == before[row_layout.REPLICAS]


def test_a_leader_that_moved_is_one_row_with_what_follows_from_it():
    archived = an_archived(seed=6, cycles=2, cold_share=0.0)
    before = archived.table(row_layout.PARTITIONS).num_rows
    archived.simulated.move_leader(3, 1)
    archived.cycle()
    rows = archived.table(row_layout.PARTITIONS).slice(before).to_pylist()
    assert len(rows) == 1
    assert rows[0]["leader"] == archived.states[-1][Partitions].leader[3]
    assert rows[0]["leader_log_end_offset"] is None
    assert rows[0]["change"] == row_layout.CHANGED


def test_rounding_leaves_less_than_half_a_percent_and_what_is_no_number():
    values = np.array([0.0, 1.0, -1.0, 123.456, 1e-7, 3.3e12, np.nan, np.inf])
    found = rounded(values)
    assert np.isnan(found[6])
    assert np.isinf(found[7])
    np.testing.assert_allclose(found[:6], values[:6], rtol=0.005)
