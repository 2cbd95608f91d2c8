"""Each sum of a view is computed when it is read, and once."""

from __future__ import annotations

from functools import partial

from streaming.bus.late import late_totals
from tests.builders import Partition, a_state
from tests.exporter.test_exporter import a_store
from twin.totals import Samples, Sums, cluster_totals, shard_totals


def test_a_sum_is_computed_when_it_is_read_first_and_not_again():
    computed = []

    def samples(name: str) -> Samples:
        computed.append(name)
        return {(): 1.0} if name == "a" else {}

    def sums() -> Sums:
        computed.append("which there are")
        return {name: partial(samples, name) for name in ("a", "b")}

    totals = late_totals(7, sums)
    assert totals.observed_at_ms == 7
    assert computed == []
    assert (totals.value("a"), totals.value("a"), totals["c"]) == (1.0, 1.0, {})
    assert computed == ["which there are", "a"]
    assert sorted(totals.samples) == ["a", "b"]
    assert (totals["b"], totals["b"]) == ({}, {})
    assert computed == ["which there are", "a", "b"]


def test_the_sums_of_a_view_are_those_of_its_shards():
    state = a_state(Partition(), Partition("other", leader=-1, isr=()))
    totals = a_store(state).view.totals
    at_once = cluster_totals(state.catalog, [shard_totals(state)])
    assert (totals.observed_at_ms, dict(totals.samples)) == (
        at_once.observed_at_ms,
        at_once.samples,
    )
