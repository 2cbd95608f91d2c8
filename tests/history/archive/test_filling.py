"""Gaps that are filled from observations: which states come out, and what is not known of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from streaming.history.archive.delta import ArchiveTables
from streaming.history.archive.gap_filling import Filler, NotFilledError
from streaming.history.replay import Replay
from streaming.history.stepping import States
from streaming.history.timeline import Timeline, timeline_of
from tests.history.archive.test_differences import columns, without_segments
from tests.history.recorded import a_recording, at
from twin.builtin import CATALOG
from twin.engine.shard_reports import CLUSTER
from twin.engine.shard_state import ShardState
from twin.rules.tiering.lineage import Lineage

BEGIN, END = 40, 60
RECORDED = a_recording(END + 1, seed=3)


def replayed() -> Replay:
    timeline = timeline_of(RECORDED.messages, "sim", 2, CATALOG.observations)
    reads = [[(n, partial(bytes, sent)) for n, sent in each] for each in timeline.messages]
    return Replay(CATALOG, "sim", 2, Timeline(timeline.cycles, reads), {})


REPLAY = replayed()


def of_shards(states: States) -> dict[int, ShardState]:
    shards = {n: each.state for n, each in states.shards.items() if each.state is not None}
    return {**shards, CLUSTER: states.cluster}


def a_filler(folder: Path, messages: list[tuple[int, bytes]]) -> Filler:
    return Filler(CATALOG, "sim", 2, ArchiveTables(str(folder)), lambda *_: messages)


def compared(state: ShardState) -> str:
    """Whatever does not follow from remote segments, as text, since NaN does not equal NaN."""
    found = columns(state, measurements=True) | columns(state, measurements=False)
    return repr(without_segments(found, state.catalog.risk_names))


def test_a_filled_state_is_that_of_a_replay_with_the_segments_of_before(tmp_path: Path):
    filler = a_filler(tmp_path, [*RECORDED.messages])
    begins = of_shards(REPLAY.states(BEGIN))
    cycles = [*filler.states(begins, at(END - 1))]
    assert len(cycles) == END - 1 - BEGIN
    for cycle, filled in enumerate(cycles, BEGIN + 1):
        true = of_shards(REPLAY.states(cycle))
        assert [state.shard for state in filled] == [0, 1, CLUSTER]
        for state in filled:
            assert compared(state) == compared(true[state.shard])
            if state.shard != CLUSTER:
                assert state[Lineage] is begins[state.shard][Lineage]


def test_a_shard_alone_is_filled_without_the_cluster_s_own(tmp_path: Path):
    filler = a_filler(tmp_path, [*RECORDED.messages])
    begins = of_shards(REPLAY.states(BEGIN))
    [filled, *_] = filler.states({1: begins[1]}, at(BEGIN + 2))
    assert [(state.shard, state.observed_at_ms) for state in filled] == [(1, at(BEGIN + 1))]


@pytest.mark.parametrize("kept_from", [BEGIN + 1, BEGIN + 5, END])
def test_observations_that_begin_later_fill_nothing(tmp_path: Path, kept_from: int):
    filler = a_filler(tmp_path, RECORDED.messages[kept_from * 2 :])
    with pytest.raises(NotFilledError, match="the bus does not keep the observations from"):
        filler.states(of_shards(REPLAY.states(BEGIN)), at(END - 1))


def test_the_cycle_is_called_once_for_each_cycle(tmp_path: Path):
    called: list[None] = []
    filler = Filler(
        CATALOG, "sim", 2, ArchiveTables(str(tmp_path)), lambda *_: [*RECORDED.messages],
        lambda: called.append(None),
    )  # fmt: skip
    assert len([*filler.states(of_shards(REPLAY.states(BEGIN)), at(BEGIN + 3))]) == len(called) == 3
