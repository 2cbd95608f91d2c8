"""Sums of a view are computed when one of them is read, and once."""

from __future__ import annotations

from streaming.bus.late import late_totals
from tests.builders import Partition, a_state
from tests.exporter.test_exporter import a_store
from twin.totals import Totals, cluster_totals, shard_totals


def test_sums_are_computed_when_the_first_is_read_and_not_again():
    computed = []

    def compute() -> Totals:
        computed.append(True)
        return Totals(7, {"a": {(): 1.0}, "b": {}})

    totals = late_totals(7, compute)
    assert totals.observed_at_ms == 7
    assert computed == []
    assert (totals.value("a"), totals["b"], totals["c"]) == (1.0, {}, {})
    assert sorted(totals.samples) == ["a", "b"]
    assert computed == [True]


def test_the_sums_of_a_view_are_those_of_its_shards():
    state = a_state(Partition(), Partition("other", leader=-1, isr=()))
    totals = a_store(state).view.totals
    at_once = cluster_totals(state.catalog, [shard_totals(state)])
    assert (totals.observed_at_ms, dict(totals.samples)) == (
        at_once.observed_at_ms,
        at_once.samples,
    )
