"""Racks without an in-sync replica (brokers 1..5 are in az-a, az-b, az-c, az-a, az-b)."""

import pytest

from tests.builders import NOW_MS, Log, Partition, a_state
from twin.declarations.declare import ApiField
from twin.engine.shard_state import ShardState
from twin.totals import shard_totals

GAPS = "kafka_twin_rack_partitions_without_in_sync_replica"
BYTES = "kafka_twin_rack_without_in_sync_replica_bytes_per_second"
UNKNOWN_RATES = "kafka_twin_rack_without_in_sync_replica_unknown_rates"


def by_rack(state: ShardState, name: str) -> dict[str, float]:
    return {rack: value for (rack,), value in shard_totals(state)[name].items()}


def racks(state: ShardState) -> list[list[str]]:
    [field] = [f for f in state.catalog.api_fields if f.name == "racks_without_in_sync_replica"]
    assert isinstance(field, ApiField)
    return state.call(field.values, field.reads)


@pytest.mark.parametrize(
    ("part", "lacking"),
    [
        (Partition(), []),
        (Partition(isr=(1, 2)), ["az-c"]),  # a replica, and not in sync
        (Partition(replicas=(1, 4)), ["az-b", "az-c"]),
        (Partition(replicas=(1, 2, 3), offline=(3,)), ["az-c"]),
        (Partition(replicas=(1, 2, 5), isr=(1, 5)), ["az-c"]),  # another one of the rack is
        (Partition(isr=(), leader=-1), ["az-a", "az-b", "az-c"]),
    ],
)
def test_a_rack_has_none_unless_one_of_its_brokers_is_in_the_isr(part, lacking):
    state = a_state(part)
    assert racks(state) == [lacking]
    assert [rack for rack, n in by_rack(state, GAPS).items() if n] == lacking


def test_what_is_written_to_such_partitions_is_counted_in_bytes_a_second():
    """100 bytes a record, 50 records in 5 s; the other partition has an unknown rate."""

    def grown(end: int) -> Log:
        return Log(end=end, size_bytes=100 * end)

    state = a_state(Partition("one", isr=(1, 2), log=grown(100)))
    later = (Partition("one", isr=(1, 2), log=grown(150)), Partition("two", isr=(1, 2)))
    state = a_state(*later, at_ms=NOW_MS + 5_000, since=state)
    assert by_rack(state, GAPS) == {"az-a": 0, "az-b": 0, "az-c": 2}
    assert by_rack(state, BYTES) == {"az-a": 0, "az-b": 0, "az-c": 1_000}
    assert by_rack(state, UNKNOWN_RATES) == {"az-a": 0, "az-b": 0, "az-c": 1}


def test_without_racks_there_is_nothing_to_lack():
    state = a_state(Partition(isr=(1,)), has_racks=False)
    assert racks(state) == [[]]
    assert by_rack(state, GAPS) == {}
