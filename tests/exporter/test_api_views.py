"""Fields of single partitions in the API beyond samples: bootstrap, reads, KIP-501."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from streaming.exporter.views.partitions import partition_objects
from tests.builders import (
    NOW_MS,
    Fetch,
    Log,
    Partition,
    a_state,
    empty,
    fetches_frame,
    partitions_frame,
    replicas_frame,
)
from tests.exporter.test_exporter import a_full_store
from twin.builtin import CATALOG
from twin.declarations.table import PartitionTable, ReplicaTable, Table
from twin.engine.shard_state import ShardState
from twin.rules.tiering.lineage import Lineage
from twin.step import step
from twin.tables.enums import PendingUpload
from twin.tables.state import Brokers

TIERED = {"t": {"remote_storage": 1, "compacted": 0}}
WARM = Log(end=1_000, local_start=0, size_bytes=1_000_000)
COLD = Log(end=1_000, local_start=900, size_bytes=100_000, pending_upload=950, last_tiered=949,
           reason=PendingUpload.KNOWN)  # fmt: skip


def shown(state: ShardState) -> dict[str, Any]:
    """The object of the only partition."""
    [partition] = partition_objects(state, np.array([0]), NOW_MS)
    return partition


def test_an_empty_follower_shows_what_kip1023_saves_and_how_long_it_copies():
    bootstrap = shown(a_state(Partition(log=COLD), topics=TIERED, last_tiered_fetch=1))["bootstrap"]
    assert bootstrap["kip1023_on"]["records"] == 50
    assert bootstrap["kip1023_off"]["records"] == 100
    assert bootstrap["saved_share"] == 0.5
    assert bootstrap["kip1023_off"]["bytes_estimate"] == 100_000
    assert bootstrap["kip1023_off"]["seconds_at_50_mib_per_s"] == pytest.approx(
        100_000 / (50 << 20)
    )


def test_what_is_unknown_saves_nothing_that_anybody_knows():
    bootstrap = shown(a_state(Partition(silent=(1,))))["bootstrap"]
    assert bootstrap["saved_share"] is None
    assert bootstrap["kip1023_on"]["seconds_at_50_mib_per_s"] is None


def test_each_rack_shows_where_its_consumers_are_sent():
    """Broker 1 leads in az-a; 2 in az-b has little on disk, 3 in az-c all of it."""
    state = a_state(Partition(logs={1: WARM, 2: COLD, 3: WARM}), topics=TIERED)
    offsets = ("newest", "oldest_on_disk", "oldest_on_disk_tier_aware")
    sent_to = {
        rack: tuple(brokers[name] for name in offsets)
        for rack, brokers in shown(state)["read_replicas"].items()
    }
    assert sent_to == {
        "az-a": (1, 1, 1), "az-b": (2, 2, 1), "az-c": (3, 3, 3), "": (1, 1, 1),
    }  # fmt: skip
    assert shown(a_state(Partition(silent=(1, 2, 3))))["read_replicas"] == {}


def test_in_sync_three_ways_side_by_side():
    """The leader took 59 s over a fetch of all there was; Kafka counts from before it."""
    state = a_state(Partition(logs={1: Log(end=200)}))
    assert shown(state)["handover_kip501"] == {"leader": None, "is_cold": None, "is_slow": None}
    slow = [Fetch(NOW_MS - 61_000), Fetch(NOW_MS - 60_000, leader_end=150, took_ms=59_000)]
    partition = shown(step(state, [fetches_frame(slow)], NOW_MS)[0])
    ways = [(r["broker"], r["in_sync"], r["in_sync_kip501"]) for r in partition["replicas"]]
    assert ways == [(1, True, True), (2, False, True), (3, None, None)]
    assert partition["handover_kip501"]["leader"] == 2


# ---------------------------------------------------------------- names and unknown values

IDENTITY = {"topic", "topic_id", "partition", "replicas", "risks", "observed_at_ms", "age_seconds"}
REPLICA_IDENTITY = {"broker", "observed_at_ms", "age_seconds"}


def full_state() -> ShardState:
    """A bit of everything."""
    (shard,) = a_full_store().view.shards
    return shard.state


def objects(state: ShardState) -> list[dict[str, Any]]:
    return partition_objects(state, np.arange(state.partitions), NOW_MS)


def column_fields(kind: type[Table]) -> dict[str, set[str]]:
    """The names of fields (columns, or flags of a column) by table that the API shows."""
    by_table: dict[str, set[str]] = {}
    for table in (*CATALOG.stored, *CATALOG.on_demand):
        if issubclass(table, kind) and table.api is not None:
            for c in table.columns:
                names = [c.name] if c.flags is None else [flag.name.lower() for flag in c.flags]
                by_table.setdefault(table.api, set()).update(names if c.in_api else [])
    return by_table


def assert_names(shown: dict[str, Any], identity: set[str], tables: dict[str, set[str]]) -> None:
    """The object has exactly the fields that the catalog declares."""
    own = {field.name for field in CATALOG.api_fields} if "topic" in identity else set()
    nested = {name: name.partition(".") for name in tables.keys() - {""}}
    objects = {name for name, _, _ in nested.values()}
    assert shown.keys() == identity | tables.get("", set()) | objects | own
    for path, (name, _, rule) in nested.items():
        inner = shown[name][rule] if rule else shown[name]
        assert inner.keys() == tables[path], path


def test_every_field_is_one_that_the_catalog_declares():
    partitions, replicas = column_fields(PartitionTable), column_fields(ReplicaTable)
    for shown in objects(full_state()):
        assert_names(shown, IDENTITY, partitions)
        for replica in shown["replicas"]:
            assert_names(replica, REPLICA_IDENTITY, replicas)


def test_names_inside_a_declared_field_are_in_its_meaning():
    """Racks are values; the columns of a table are documented with the table."""
    state = full_state()
    meanings = {field.name: field.meaning for field in CATALOG.api_fields}
    racks, lineage = {"", *state[Brokers].rack.tolist()}, {c.name for c in Lineage.columns}
    inner_names: set[tuple[str, str]] = set()

    def collect(name: str, value: Any) -> None:
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict):
                for key, below in inner.items():
                    inner_names.add((name, key))
                    collect(name, below)

    for shown in objects(state):
        for name in meanings:
            collect(name, shown[name])
    assert {name for name, _ in inner_names} > {
        "bootstrap",
        "catching_up",
        "remote_segments",
        "kip501",
    }
    undocumented = [
        (name, key)
        for name, key in sorted(inner_names)
        if f"`{key}`" not in meanings[name]
        and key not in (*racks, *CATALOG.election_rules)
        and not (name == "remote_segments" and key in lineage)
    ]
    assert undocumented == []


def test_minus_one_is_shown_only_where_it_is_a_value():
    nothing_known = step(empty(), [partitions_frame([Partition(leader=-1)])], NOW_MS)[0]
    values_of_minus_one = {"leader", "error_code"}
    for shown in (*objects(nothing_known), *objects(full_state())):
        assert not [path for path, value in leaves(shown)
                    if value == -1 and path[-1] not in values_of_minus_one]  # fmt: skip
        assert all(np.isfinite(value) for _, value in leaves(shown) if isinstance(value, float))
    [shown] = objects(nothing_known)
    assert shown["leader"] == -1
    unknown = {path[-1] for path, value in leaves(shown) if value is None}
    assert unknown >= {"log_end_offset", "in_sync", "lag_records", "local_log_bytes"}


def leaves(value: Any, *path: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every plain value with the names that lead to it."""
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for name, inner in pairs:
            yield from leaves(inner, *path, name)
    else:
        yield path, value


def test_a_partition_that_was_not_described_yet_has_no_leader_and_no_age():
    """Replicas may answer before a listing names their partition."""
    state, _ = step(empty(), [replicas_frame([Partition()])], NOW_MS)
    partition = shown(state)
    assert (partition["leader"], partition["leader_epoch"]) == (None, None)
    assert (partition["observed_at_ms"], partition["age_seconds"]) == (None, None)
    assert (partition["replicas"], partition["isr"], partition["risks"]) == ([], [], [])


def test_a_partition_is_the_same_on_any_page():
    state = full_state()
    rows = range(state.partitions)
    assert [partition_objects(state, np.array([row]), NOW_MS)[0] for row in rows] == objects(state)
