"""Brokers that the cluster does not list: which of them stay, and what is known of them."""

from collections.abc import Sequence

import numpy as np
import pytest

from tests.builders import NOW_MS, Partition, a_state, brokers_frame
from tests.cycles import listed_frames
from twin.builtin import CATALOG
from twin.declarations.table import UNKNOWN
from twin.engine import codec
from twin.engine.frames import Frame
from twin.engine.shard_state import ShardState
from twin.questions.whatif import brokers_in, lose
from twin.rules.brokers.racks import racks_of
from twin.rules.election.next_leader import NextLeaders
from twin.step import step
from twin.tables.state import UNLISTED_STAYS_MS, Brokers

LATER_MS = NOW_MS + 5_000


def old_list(
    ids: Sequence[int] = (1, 2, 3), at_ms: int = LATER_MS, *, unlisted: Sequence[int] = ()
) -> Frame:
    """The brokers as a Kafka before 4.0 lists them: without those that are fenced."""
    return brokers_frame(ids, at_ms, unlisted=unlisted, complete=False)


def started(*parts: Partition) -> ShardState:
    """Three brokers of a Kafka before 4.0."""
    given = parts or (Partition(),)
    observed = [old_list(at_ms=NOW_MS), *listed_frames(given)]
    return step(a_state(*given, at_ms=NOW_MS - 1, brokers=(1, 2, 3)), observed, NOW_MS)[0]


def kinds(state: ShardState, frame: Frame) -> list[str]:
    changes = step(state, [frame], frame.header.observed_at_ms)[1]
    return [change.kind for change in changes if not change.topic]


def after(state: ShardState, *frames: Frame) -> ShardState:
    for frame in frames:
        state = step(state, [frame], frame.header.observed_at_ms)[0]
    return state


def test_a_broker_that_an_assignment_alone_names_stays_where_it_was():
    lost = old_list(unlisted=[2])
    brokers = after(started(), lost)[Brokers]
    assert brokers.broker.tolist() == [1, 2, 3]
    assert brokers.listed.tolist() == brokers.answered.tolist() == [True, False, True]
    assert (brokers.rack[1], brokers.host[1]) == ("az-b", "127.0.0.1:19092")
    assert brokers.fenced[1] == UNKNOWN
    assert brokers.listed_at_ms.tolist() == [LATER_MS, NOW_MS, LATER_MS]
    assert kinds(started(), lost) == ["broker_silent"]


def test_what_is_known_of_an_unlisted_broker_survives_in_the_snapshot():
    state = codec.decode(codec.encode(started()), CATALOG).state
    brokers = after(state, old_list(unlisted=[2]))[Brokers]
    assert (brokers.rack[1], brokers.host[1]) == ("az-b", "127.0.0.1:19092")


def test_its_rack_is_that_of_the_collector_until_the_twin_has_known_one():
    brokers = after(started(), old_list((1, 2, 3, 4), unlisted=[4]))[Brokers]
    assert (brokers.rack[3], brokers.host[3], brokers.listed_at_ms[3]) == ("", "", UNKNOWN)
    assert racks_of(brokers, np.array([2, 4])).tolist() == [1, UNKNOWN]


@pytest.mark.parametrize(
    ("waited_ms", "stays"), [(UNLISTED_STAYS_MS - 1, True), (UNLISTED_STAYS_MS, False)]
)
def test_a_broker_without_replicas_stays_for_a_day(waited_ms, stays):
    end_ms = NOW_MS + waited_ms
    state = after(started(Partition(replicas=(1, 2))), old_list([1, 2]))
    assert state[Brokers].answered.tolist() == [True, True, False]
    assert kinds(state, old_list([1, 2], end_ms)) == ([] if stays else ["broker_unregistered"])
    assert (3 in after(state, old_list([1, 2], end_ms))[Brokers].broker) == stays


def test_a_broker_that_an_assignment_names_stays_longer_than_a_day():
    end_ms = NOW_MS + 3 * UNLISTED_STAYS_MS
    state = after(started(), old_list(unlisted=[2]), old_list(at_ms=end_ms, unlisted=[2]))
    assert state[Brokers].rack.tolist() == ["az-a", "az-b", "az-c"]


def test_a_list_with_fenced_brokers_says_who_is_gone():
    complete = brokers_frame([1, 3], LATER_MS)
    assert kinds(started(), complete) == ["broker_unregistered"]
    assert after(started(), complete)[Brokers].broker.tolist() == [1, 3]


def test_a_broker_that_is_listed_again_answers_again():
    state = after(started(), old_list(unlisted=[2]))
    back = old_list(at_ms=LATER_MS + 5_000)
    assert kinds(state, back) == ["broker_answers"]
    brokers = after(state, back)[Brokers]
    assert (brokers.silent_since_ms[1], brokers.silent_until_ms[1]) == (NOW_MS, LATER_MS + 5_000)


def test_nobody_expects_an_unlisted_broker_to_lead():
    """Kafka before 4.0 has fenced it, though nothing distinguishes it from one that was removed."""
    state = after(started(), old_list(unlisted=[2]))
    assert state[NextLeaders].leader.tolist() == [3]


def test_an_unlisted_broker_can_be_asked_about():
    state = after(started(), old_list(unlisted=[2]))
    assert brokers_in(state, ["az-b"]) == [2]
    assert not len(lose(state, [2]).row[lose(state, [2]).offline])
