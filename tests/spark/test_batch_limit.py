"""The limit of a batch: low beside one cluster that floods, higher while most clusters wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streaming.bus.bus_topics import topics
from streaming.query.buses.batch_limit import (
    GROWS_AFTER_BATCHES,
    IS_LOWERED_AFTER_BATCHES,
    BatchLimit,
    highest,
    lowest,
)
from streaming.runtime.config import BusConfig, ClusterConfig, Config, QueryConfig


def clusters(*shards: int, configured: int = 1_000) -> list[Config]:
    query = QueryConfig(max_offsets_per_trigger=configured)
    return [
        Config(
            cluster=ClusterConfig(name=f"c{i}"), bus=BusConfig(prefix=f"p.c{i}", shards=n),
            query=query,
        )
        for i, n in enumerate(shards)
    ]  # fmt: skip


def report(configs: Sequence[Config], waiting: Sequence[int], took: int = 3) -> dict[str, Any]:
    """A batch that took so many messages, and left out so many of each cluster."""
    names = [topics(config).observations for config in configs]
    ends = {name: {"0": 100} for name in names}
    latest = {name: {"0": 100 + n} for name, n in zip(names, waiting, strict=True)}
    source = {"startOffset": None, "endOffset": ends, "latestOffset": latest}
    return {"numInputRows": took, "sources": [source]}


def limits(limit: BatchLimit, waiting: Sequence[int], batches: int, took: int = 3) -> list[int]:
    """The limits to which it changes while each batch leaves out so many."""
    one = report(limit.configs, waiting, took)
    return [limit.most for _ in range(batches) if limit.has_changed(one)]


def test_at_first_a_batch_of_several_clusters_has_a_cycle_of_all() -> None:
    assert lowest(clusters(1)) == 1_000
    assert lowest(clusters(1, 1, 15)) == 17
    assert lowest(clusters(1, 1, 1)) == 10
    assert lowest(clusters(1, 1, 1, configured=5)) == 5
    assert lowest(clusters(*[1] * 1_200)) == 1_200, "or a cycle would never be whole"


def test_one_cluster_that_floods_does_not_raise_it() -> None:
    assert limits(BatchLimit(clusters(1, 1, 1)), [5_000, 0, 0], 50) == []


def test_it_grows_while_most_clusters_wait() -> None:
    limit = BatchLimit(clusters(1, 1, 1, configured=100))
    assert limits(limit, [400, 20, 0], GROWS_AFTER_BATCHES) == [40]
    assert limits(limit, [400, 20, 7], 5 * GROWS_AFTER_BATCHES) == [100]


def test_it_stays_when_a_cluster_comes_or_goes() -> None:
    assert BatchLimit(clusters(1, 1, 1, 1), before=40).most == 40
    assert BatchLimit(clusters(1, 1, configured=20), before=40).most == 20
    assert BatchLimit(clusters(1), before=40).most == 1_000


def test_a_pause_begins_the_count_anew() -> None:
    limit = BatchLimit(clusters(1, 1, 1))
    for _ in range(10):
        assert limits(limit, [9, 9, 9], GROWS_AFTER_BATCHES - 1) == []
        assert limits(limit, [9, 0, 0], 1) == []


def test_it_is_lowered_once_nobody_has_waited_for_long() -> None:
    limit = BatchLimit(clusters(1, 1, 1))
    limits(limit, [9, 9, 9], 2 * GROWS_AFTER_BATCHES)
    calm = [0, 0, 0]
    assert limits(limit, calm, IS_LOWERED_AFTER_BATCHES, took=11) == [], "taps need as much"
    assert limits(limit, calm, IS_LOWERED_AFTER_BATCHES - 1, took=10) == []
    assert limits(limit, calm, 1) == [10]
    assert limits(limit, [0, 0, 0], 2 * IS_LOWERED_AFTER_BATCHES) == []


def test_a_single_cluster_has_what_is_configured_whatever_waits() -> None:
    assert limits(BatchLimit(clusters(1)), [50_000], 50) == []


def test_a_report_without_offsets_says_nothing() -> None:
    limit = BatchLimit(clusters(1, 1))
    empty = {
        "numInputRows": 0,
        "sources": [{"startOffset": None, "endOffset": None, "latestOffset": None}],
    }
    assert not any(limit.has_changed(empty) for _ in range(10))


def test_a_batch_of_large_clusters_has_a_few_cycles_of_one_however_long_all_have_waited() -> None:
    configs = clusters(*[16] * 20)
    assert (lowest(configs), highest(configs)) == (32, 160)
    assert highest(configs[:1]) == 1_000
