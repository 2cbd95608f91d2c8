"""The worst broker and rack: each number is that of losing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from streaming.bus.view import ClusterView
from streaming.questions.headline.worst_losses import worst_broker, worst_rack
from streaming.questions.single_loss import single_loss
from tests.console.cluster import Shown, small
from tests.console.fleet import SMALL, Simulated, lost, simulated, view_of
from twin.questions.whatif import brokers_in
from twin.rules.brokers.racks import rack_names
from twin.tables.state import Brokers

STATES = {
    "nothing is lost": simulated(),
    "a broker is lost": simulated(lost(4)),
    "three are lost": simulated(lost(1, 2, 3)),
    "two racks": simulated(shape=replace(SMALL, racks=2, replication=2, min_isr=1)),
}

each_state = pytest.mark.parametrize("state", STATES.values(), ids=STATES)


def offline(view: ClusterView, brokers: Sequence[int]) -> int:
    return sum(int(loss.offline.sum()) for loss in view.lose(brokers))


@each_state
def test_no_other_rack_takes_more_partitions_offline(state: Simulated):
    view = view_of("c", state)
    assert view.newest is not None
    by_rack = {
        rack: offline(view, brokers_in(view.newest, [rack]))
        for rack in rack_names(view.newest[Brokers])
    }
    found = worst_rack(view)
    assert found is not None
    assert found["offline"] == by_rack[found["rack"]] == max(by_rack.values())


@each_state
def test_no_other_broker_takes_more_partitions_offline(state: Simulated):
    view = view_of("c", state)
    cannot = single_loss(view, ())["cannot_be_lost"]
    found = worst_broker(view.totals, cannot)
    if found is None:
        assert cannot == []
        return
    led = {b: offline(view, [b]) for b in cannot}
    assert led[found["broker"]] == max(led.values())
    assert found["cannot_be_lost"] == len(cannot)


def test_partitions_of_one_replica_go_with_their_broker_and_are_in_no_number():
    shown = Shown()
    shown.show(small(in_sync=True))  # of scratch broker 2 has the only replica
    found = worst_rack(shown.view)
    assert found is not None
    assert offline(shown.view, [2]) == 1
    assert found["offline"] == 0


def test_without_two_racks_there_is_no_worst_one():
    assert worst_rack(view_of("c", simulated(shape=replace(SMALL, racks=1)))) is None
    assert worst_rack(ClusterView()) is None
