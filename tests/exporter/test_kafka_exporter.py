"""The names, labels and conventions of kafka_exporter, as its README lists them."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from streaming.bus.view import ClusterView
from streaming.exporter.metrics.exposition import Renderer
from streaming.exporter.metrics.kafka_exporter import NAMES, KafkaExporterNames
from streaming.runtime.config import ExporterConfig
from tests.builders import (
    NOW_MS,
    Group,
    Log,
    Partition,
    a_state,
    group_offsets_frame,
    groups_frame,
)
from tests.exporter.test_exporter import a_store, exposition
from twin.builtin import CATALOG
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.step import step

README = {
    "kafka_brokers": set(),
    "kafka_broker_info": {"address", "id"},
    "kafka_topic_partitions": {"topic"},
    "kafka_topic_partition_current_offset": {"partition", "topic"},
    "kafka_topic_partition_oldest_offset": {"partition", "topic"},
    "kafka_topic_partition_in_sync_replica": {"partition", "topic"},
    "kafka_topic_partition_leader": {"partition", "topic"},
    "kafka_topic_partition_leader_is_preferred": {"partition", "topic"},
    "kafka_topic_partition_replicas": {"partition", "topic"},
    "kafka_topic_partition_under_replicated_partition": {"partition", "topic"},
    "kafka_consumergroup_current_offset": {"consumergroup", "partition", "topic"},
    "kafka_consumergroup_current_offset_sum": {"consumergroup", "topic"},
    "kafka_consumergroup_lag": {"consumergroup", "partition", "topic"},
    "kafka_consumergroup_lag_sum": {"consumergroup", "topic"},
    "kafka_consumergroup_members": {"consumergroup"},
}
"""Its metrics and their labels, but for those of offsets in ZooKeeper."""

FIRST = Partition("orders", 0, (1, 2, 3), log=Log(end=100, start=5))
SECOND = Partition("orders", 1, (2, 3), isr=(3,), leader=3, log=Log(end=70))
DOWN = Partition("orders", 2, (1,), isr=(), leader=-1, silent=(1,))
QUIET = Partition("quiet", 0, (1,), log=Log(end=0))
PARTS = (FIRST, SECOND, DOWN, QUIET)

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def a_cluster(*groups: Group, parts: tuple[Partition, ...] = PARTS) -> ShardState:
    state = a_state(*parts)
    read = [groups_frame(groups), group_offsets_frame(groups)]
    return step(state, read, NOW_MS)[0]


def served(state: ShardState, **config: str) -> Series:
    """Every series with a name of kafka_exporter."""
    text = exposition(a_store(state), **{"compatibility": "kafka_exporter", **config})
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.startswith("kafka_twin_")
    }


def values_of(series: Series, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """The values of a name by these labels."""
    return {
        tuple(dict(held)[label] for label in labels): value
        for (other, held), value in series.items()
        if other == name
    }


def test_names_and_labels_are_those_of_its_readme() -> None:
    series = served(a_cluster(Group("g", [(FIRST, 40)])))
    labels: dict[str, set[str]] = {}
    for name, held in series:
        labels.setdefault(name, {label for label, _ in held})
        assert labels[name] == {label for label, _ in held}
    assert labels == README
    assert {name: set(declared.labels) for name, declared in NAMES.items()} == README


def test_they_are_served_if_they_are_asked_for() -> None:
    assert served(a_cluster(Group("g", [(FIRST, 40)])), compatibility="") == {}


def test_granularity_does_not_concern_them() -> None:
    state = a_cluster(Group("g", [(FIRST, 40)]))
    assert served(state, granularity="cluster") == served(state)


def test_partitions_have_the_values_of_kafka_exporter() -> None:
    series = served(a_cluster())
    assert values_of(series, "kafka_topic_partitions", "topic") == {("orders",): 3, ("quiet",): 1}

    def by_partition(name: str) -> dict[tuple[str, ...], float]:
        return values_of(series, f"kafka_topic_partition_{name}", "topic", "partition")

    first, second, down, quiet = (("orders", "0"), ("orders", "1"), ("orders", "2"), ("quiet", "0"))
    assert by_partition("current_offset") == {first: 100, second: 70, quiet: 0}
    assert by_partition("oldest_offset") == {first: 5, second: 0, quiet: 0}
    assert by_partition("leader") == {first: 1, second: 3, quiet: 1}
    assert by_partition("replicas") == {first: 3, second: 2, down: 1, quiet: 1}
    assert by_partition("in_sync_replica") == {first: 3, second: 1, down: 0, quiet: 1}
    assert by_partition("leader_is_preferred") == {first: 1, second: 0, down: 0, quiet: 1}
    assert by_partition("under_replicated_partition") == {first: 0, second: 1, down: 1, quiet: 0}


def test_brokers_that_are_up_are_listed_with_their_addresses() -> None:
    series = served(a_state(*PARTS, brokers=(1, 2, 3), fenced=(2,)))
    assert values_of(series, "kafka_broker_info", "id", "address") == {
        ("1", "127.0.0.1:19091"): 1,
        ("3", "127.0.0.1:19093"): 1,
    }
    assert series["kafka_brokers", frozenset()] == 2


def test_a_partition_without_an_offset_has_minus_one_where_others_of_the_topic_have_some() -> None:
    series = served(a_cluster(Group("g", [(FIRST, 40)]), Group("none", members=0)))
    names = ("consumergroup", "topic", "partition")
    offsets = values_of(series, "kafka_consumergroup_current_offset", *names)
    assert offsets == {("g", "orders", "0"): 40, ("g", "orders", "1"): -1, ("g", "orders", "2"): -1}
    assert values_of(series, "kafka_consumergroup_lag", *names) == {
        ("g", "orders", "0"): 60,
        ("g", "orders", "1"): -1,
        ("g", "orders", "2"): -1,
    }
    assert values_of(series, "kafka_consumergroup_current_offset_sum", "consumergroup") == {
        ("g",): 38
    }
    assert values_of(series, "kafka_consumergroup_lag_sum", "consumergroup") == {("g",): 60}
    assert values_of(series, "kafka_consumergroup_members", "consumergroup") == {
        ("g",): 1,
        ("none",): 0,
    }


def test_an_assigned_partition_alone_makes_no_topic_consumed() -> None:
    series = served(a_cluster(Group("g", [(QUIET, UNKNOWN)])))
    assert values_of(series, "kafka_consumergroup_current_offset", "topic") == {}
    assert values_of(series, "kafka_consumergroup_lag_sum", "topic") == {}


def test_what_is_unknown_has_no_series() -> None:
    series = served(a_cluster(Group("g", [(DOWN, 3)], members=UNKNOWN)))
    assert values_of(series, "kafka_consumergroup_members", "consumergroup") == {}
    lags = values_of(series, "kafka_consumergroup_lag", "partition")
    assert ("2",) not in lags  # its high watermark is unknown
    assert values_of(series, "kafka_consumergroup_current_offset", "partition")["2",] == 3


def test_the_lag_of_a_group_that_is_ahead_of_the_log_is_negative() -> None:
    """A lag of -1 is known as well; the offsets were read before the log ended there."""
    groups = [Group("g", [(FIRST, 100), (QUIET, 1)]), Group("h", [(FIRST, 99)])]
    state = a_cluster(*groups)
    cut = Partition("orders", 0, (1, 2, 3), log=Log(end=60, start=5))
    parts = (cut, *PARTS[1:])
    for n in (1, 2):
        at_ms = NOW_MS + n * 5_000
        read = [Group(g.name, g.offsets, read_ms=at_ms - 1) for g in groups]
        state = a_state(*parts, since=state, at_ms=at_ms)
        state, _ = step(state, [groups_frame(read, at_ms), group_offsets_frame(read, at_ms)], at_ms)
    series = served(state)
    names = ("consumergroup", "topic", "partition")
    lags = values_of(series, "kafka_consumergroup_lag", *names)
    assert lags["g", "orders", "0"] == 60 - 100
    assert lags["g", "quiet", "0"] == -1
    assert lags["h", "orders", "0"] == 60 - 99
    sums = values_of(series, "kafka_consumergroup_lag_sum", "consumergroup", "topic")
    assert sums == {("g", "orders"): -40, ("g", "quiet"): -1, ("h", "orders"): -39}


def test_a_sum_of_which_no_lag_is_known_has_no_series() -> None:
    series = served(a_cluster(Group("g", [(DOWN, 3)]), Group("h", [(DOWN, 3), (FIRST, 40)])))
    sums = values_of(series, "kafka_consumergroup_lag_sum", "consumergroup", "topic")
    assert sums == {("h", "orders"): 60}


def test_names_with_quotes_are_escaped() -> None:
    series = served(a_cluster(Group('a"b\\c', [(QUIET, 0)])))
    assert values_of(series, "kafka_consumergroup_lag", "consumergroup") == {('a"b\\c',): 0}


def test_the_text_of_a_shard_that_stays_is_kept() -> None:
    store = a_store(a_cluster(Group("g", [(FIRST, 40)])))
    names = KafkaExporterNames()
    one, other = list(names.render(store.view)), list(names.render(store.view))
    assert one == other
    shared = [body for body in one if b"kafka_consumergroup_lag{" in body]
    assert shared
    assert all(any(body is again for again in other) for body in shared)


def test_nothing_is_served_of_a_cluster_that_is_not_known() -> None:
    renderer = Renderer(CATALOG, "c", ExporterConfig(compatibility="kafka_exporter"))
    text = b"".join(renderer.render(ClusterView()).blocks).decode()
    assert "kafka_twin_shards" in text
    assert not [name for name in NAMES if name in text]
