"""Problems of the collector in the state: the newest list, and since when each has lasted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.builders import NOW_MS, Partition, a_state, brokers_frame, problems_frame
from twin.builtin import CATALOG
from twin.engine import codec, frames
from twin.engine.catalog import Catalog
from twin.engine.frames import InvalidFrame
from twin.engine.shard_state import ShardState
from twin.step import step
from twin.tables.observations import ProblemsFrame
from twin.tables.state import ProblemListing, Problems

DENIED = ("log dirs", 2, "ClusterAuthorizationFailed", "DESCRIBE on the cluster is missing")
SILENT = ("broker", 3, "Timeout", "did not answer within the deadline")
LATER_MS = NOW_MS + 5_000


def after(state: ShardState, *problems: tuple[str, int, str, str], at_ms: int) -> ShardState:
    return step(state, [brokers_frame(at_ms=at_ms), problems_frame(problems, at_ms)], at_ms)[0]


def lasting(state: ShardState) -> list[tuple[str, int, int]]:
    """Source, broker, and since when."""
    held = state[Problems]
    columns = held.source.tolist(), held.broker.tolist(), held.since_ms.tolist()
    return list(zip(*columns, strict=True))


def test_before_any_list_it_is_not_known_whether_there_are_problems():
    assert len(a_state()[ProblemListing].at_ms) == 0
    state = after(a_state(), at_ms=NOW_MS)
    assert state[ProblemListing].at_ms.tolist() == [NOW_MS]
    assert lasting(state) == []


def test_the_newest_list_replaces_the_one_before_and_what_stays_keeps_its_beginning():
    state = after(a_state(), DENIED, at_ms=NOW_MS)
    state = after(state, SILENT, (*DENIED[:3], "in other words"), at_ms=LATER_MS)
    assert lasting(state) == [("broker", 3, LATER_MS), ("log dirs", 2, NOW_MS)]
    assert state[Problems].text[1] == "in other words"
    state = after(state, SILENT, at_ms=LATER_MS + 5_000)
    assert lasting(state) == [("broker", 3, LATER_MS)]
    state = after(state, DENIED, at_ms=LATER_MS + 10_000)
    assert lasting(state) == [("log dirs", 2, LATER_MS + 10_000)], "it began anew"


def test_another_error_at_the_same_place_is_another_problem():
    state = after(a_state(), SILENT, at_ms=NOW_MS)
    state = after(state, ("broker", 3, "KafkaConnection", "refused"), at_ms=LATER_MS)
    assert lasting(state) == [("broker", 3, LATER_MS)]


def test_a_repeated_list_and_a_late_one_change_nothing():
    state = after(a_state(), DENIED, at_ms=LATER_MS)
    for at_ms in (NOW_MS, LATER_MS):
        assert step(state, [problems_frame([SILENT], at_ms)], LATER_MS) == (state, [])


def test_a_cycle_without_a_list_keeps_the_last_one_with_its_time():
    """A collector of an earlier version sends none."""
    state = after(a_state(), DENIED, at_ms=NOW_MS)
    state, _ = step(state, [brokers_frame(at_ms=LATER_MS)], LATER_MS)
    assert lasting(state) == [("log dirs", 2, NOW_MS)]
    assert state[ProblemListing].at_ms.tolist() == [NOW_MS]


def test_a_list_may_be_cut_off_and_never_comes_in_parts():
    frame = problems_frame([DENIED], LATER_MS, complete=False)
    state, _ = step(a_state(), [frame], LATER_MS)
    assert state[ProblemListing].is_whole.tolist() == [False]
    with pytest.raises(InvalidFrame, match="in 2 parts"):
        step(a_state(), [replace(frame, header=replace(frame.header, parts=2))], LATER_MS)


def test_problems_are_stored_and_those_of_a_state_without_them_are_not_known():
    state = after(a_state(Partition()), DENIED, SILENT, at_ms=NOW_MS)
    decoded = codec.decode(codec.encode(state), CATALOG)
    assert decoded.discarded == ()
    assert lasting(decoded.state) == lasting(state)
    assert decoded.state[Problems].text.tolist() == [DENIED[3], SILENT[3]]


# ---------------------------------------------------------------- upgrades


def before_problems() -> Catalog:
    """The catalog of a version that knows nothing of problems."""
    kind, tables = ProblemsFrame.kind, (Problems, ProblemListing)
    return replace(
        CATALOG,
        observations={k: table for k, table in CATALOG.observations.items() if k != kind},
        ingests={k: each for k, each in CATALOG.ingests.items() if k != kind},
        stored=tuple(table for table in CATALOG.stored if table not in tables),
    )


def test_an_earlier_version_skips_the_list_and_uses_the_rest_of_the_message():
    cycle = [brokers_frame(at_ms=NOW_MS), problems_frame([DENIED], NOW_MS)]
    decoded = frames.decode(b"".join(map(frames.encode, cycle)), before_problems().observations)
    assert [frame.header.kind for frame in decoded.frames] == ["brokers"]
    assert decoded.unknown_kinds == ("problems",)
    assert decoded.invalid == ()


def test_the_state_of_an_earlier_version_is_kept_and_has_no_list_yet():
    earlier = a_state(Partition(), since=ShardState.empty(before_problems(), "c", 0, 1))
    decoded = codec.decode(codec.encode(earlier), CATALOG)
    assert decoded.discarded == ()
    assert decoded.state.partitions == 1
    assert len(decoded.state[ProblemListing].at_ms) == 0
    assert lasting(after(decoded.state, DENIED, at_ms=LATER_MS)) == [("log dirs", 2, LATER_MS)]


def test_an_exporter_of_an_earlier_version_reads_the_snapshot():
    state = after(a_state(Partition()), DENIED, at_ms=NOW_MS)
    decoded = codec.decode(codec.encode(state), before_problems())
    assert {each.partition(":")[0] for each in decoded.discarded} == {"problems", "problem_listing"}
    assert decoded.state.partitions == 1
