from __future__ import annotations

import uuid
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.metadata import MetadataResponse

from streaming.bus.bus_topics import shard_of
from streaming.collector import listing
from streaming.collector.listing import PartitionListing
from twin.tables.enums import ReplicaFlags

TOPIC = MetadataResponse.MetadataResponseTopic
SHARDS = 4


def topic(name: str, *partitions: Any, identity: int = 0, error: int = 0) -> Any:
    return TOPIC(
        error_code=error,
        name=name,
        topic_id=uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}{identity}"),
        partitions=list(partitions),
    )


def partition(
    number: int,
    replicas: list[int],
    isr: list[int] | None = None,
    offline: tuple[int, ...] = (),
    leader: int | None = None,
    epoch: int = 0,
) -> Any:
    return TOPIC.MetadataResponsePartition(
        error_code=0,
        partition_index=number,
        leader_id=replicas[0] if leader is None else leader,
        leader_epoch=epoch,
        replica_nodes=replicas,
        isr_nodes=replicas if isr is None else isr,
        offline_replicas=list(offline),
    )


def listed(*topics: Any, shards: int = SHARDS) -> PartitionListing:
    return listing.from_metadata(topics, shards, lambda _: True)


def rows(view: PartitionListing) -> list[tuple[Any, ...]]:
    """Shard, topic, partition, leader, epoch, replicas and marks of each row."""
    place = view.placement
    as_rows = []
    for row in range(len(place)):
        replicas = slice(place.first[row], place.first[row + 1])
        as_rows.append(
            (
                int(np.searchsorted(place.partition_cuts, row, side="right") - 1),
                place.topic[place.topic_of[row]],
                int(place.partition[row]),
                int(view.leader[row]),
                int(view.leader_epoch[row]),
                place.broker[replicas].tolist(),
                view.replica_flags[replicas].tolist(),
            )
        )
    return as_rows


def test_a_listing_holds_what_metadata_says_in_assignment_order() -> None:
    view = listed(
        topic("a", partition(1, [3, 1, 2], isr=[2, 3], offline=(1,), leader=2, epoch=5)),
        shards=1,
    )
    in_isr, offline = int(ReplicaFlags.IN_ISR), int(ReplicaFlags.OFFLINE)
    assert rows(view) == [(0, "a", 1, 2, 5, [3, 1, 2], [in_isr, offline, in_isr])]
    assert view.isr_size().tolist() == [2]
    assert view.complete


def test_rows_stand_by_shard_then_topic_then_partition() -> None:
    names = [f"topic-{i}" for i in range(40)]
    view = listed(*(topic(n, partition(2, [1]), partition(0, [2])) for n in names))
    assert [r[:3] for r in rows(view)] == sorted(
        (shard_of(n, SHARDS), n, p) for n in names for p in (0, 2)
    )
    place = view.placement
    for shard in range(SHARDS):
        own = place.topic[place.topic_cuts[shard] : place.topic_cuts[shard + 1]]
        assert own == tuple(sorted(n for n in names if shard_of(n, SHARDS) == shard))
        cut = slice(place.partition_cuts[shard], place.partition_cuts[shard + 1])
        assert place.replica_cuts[shard + 1] - place.replica_cuts[shard] == len(
            place.partition[cut]
        )


def test_a_topic_with_an_error_makes_the_listing_partial() -> None:
    view = listed(topic("a", partition(0, [1])), topic("b", error=5))
    assert view.placement.topic == ("a",)
    assert not view.complete


def test_a_topic_that_is_not_wanted_leaves_the_listing_complete() -> None:
    topics = [topic("a", partition(0, [1])), topic("b", error=5)]
    view = listing.from_metadata(topics, SHARDS, lambda name: name == "a")
    assert view.placement.topic == ("a",)
    assert view.complete


def test_no_topics_is_a_complete_listing_of_nothing() -> None:
    view = listed()
    assert len(view.placement) == 0
    assert view.complete
    assert view.isr_size().tolist() == []
    assert not listing.empty(SHARDS).complete


def test_a_partition_without_replicas_or_leader_is_a_row() -> None:
    view = listed(topic("a", partition(0, [], leader=-1), partition(1, [2])), shards=1)
    assert [(r[2], r[3], r[5]) for r in rows(view)] == [(0, -1, []), (1, 2, [2])]
    assert view.isr_size().tolist() == [0, 1]


def test_a_cluster_without_topic_ids_has_zero_ids() -> None:
    without = topic("a", partition(0, [1]))
    without.topic_id = None
    assert listed(without).placement.topic_id == (bytes(16),)


@st.composite
def clusters(draw: st.DrawFn) -> dict[tuple[str, int], dict[int, list[int]]]:
    """Topics by name and id; partitions with their replicas."""
    names = draw(st.sets(st.sampled_from("abcdef")))
    brokers = st.lists(st.integers(1, 5), unique=True, max_size=4)
    return {
        (name, draw(st.integers(0, 1))): draw(st.dictionaries(st.integers(0, 4), brokers))
        for name in names
    }


def listed_from(cluster: dict[tuple[str, int], dict[int, list[int]]]) -> PartitionListing:
    return listed(
        *(
            topic(name, *(partition(n, r, leader=-1) for n, r in ps.items()), identity=identity)
            for (name, identity), ps in cluster.items()
        )
    )


def replicas_of(view: PartitionListing) -> list[tuple[Any, ...]]:
    place = view.placement
    return [
        (place.topic[t], place.topic_id[t], int(place.partition[p]), int(b))
        for p, b in zip(place.partition_of.tolist(), place.broker.tolist(), strict=True)
        for t in (place.topic_of[p],)
    ]


@given(clusters(), clusters())
def test_matched_replicas_are_those_of_the_same_name_id_number_and_broker(
    before: dict[Any, Any], after: dict[Any, Any]
) -> None:
    old, new = listed_from(before), listed_from(after)
    in_old, in_new = listing.common_replicas(old.placement, new.placement)
    pairs = [
        (replicas_of(old)[i], replicas_of(new)[j]) for i, j in zip(in_old, in_new, strict=True)
    ]
    assert all(a == b for a, b in pairs)
    assert {a for a, _ in pairs} == set(replicas_of(old)) & set(replicas_of(new))


@given(clusters())
def test_every_partition_is_found_by_topic_and_number(cluster: dict[Any, Any]) -> None:
    place = listed_from(cluster).placement
    for row in range(len(place)):
        assert place.row_of(int(place.topic_of[row]), int(place.partition[row])) == row
    for index in range(len(place.topic)):
        assert place.row_of(index, 77) is None
    assert place.row_of(-1, 0) is None


@given(clusters())
def test_the_same_cluster_has_the_same_placement(cluster: dict[Any, Any]) -> None:
    assert listed_from(cluster).placement.same_as(
        listed_from(dict(reversed(cluster.items()))).placement
    )


def test_a_lower_epoch_of_the_same_topic_is_behind() -> None:
    current = listed(topic("a", partition(0, [1], epoch=5)), topic("b", partition(0, [1], epoch=9)))
    assert not listing.is_behind(current, current)
    newer = listed(topic("a", partition(0, [1], epoch=6)))
    assert not listing.is_behind(current, newer)
    older = listed(topic("a", partition(0, [1], epoch=4)), topic("b", partition(0, [1], epoch=9)))
    assert listing.is_behind(current, older)


def test_a_recreated_topic_starts_its_epochs_anew() -> None:
    current = listed(topic("a", partition(0, [1], epoch=5)))
    assert not listing.is_behind(
        current, listed(topic("a", partition(0, [1], epoch=0), identity=1))
    )


def test_of_two_answers_the_higher_epoch_of_each_partition_wins() -> None:
    one = [topic("a", partition(0, [1, 2], leader=1, epoch=3), partition(1, [1, 2], epoch=8))]
    other = [topic("a", partition(0, [1, 2], leader=2, epoch=4), partition(1, [1, 2], epoch=7))]
    for pair in ((one, other), (other, one)):
        topics, agree = listing.merge_metadata(*pair)
        assert agree
        assert [(r[2], r[3], r[4]) for r in rows(listed(*topics))] == [(0, 2, 4), (1, 1, 8)]


def test_answers_that_name_other_topics_do_not_agree() -> None:
    one = [topic("a", partition(0, [1]))]
    topics, agree = listing.merge_metadata(one, [*one, topic("b", partition(0, [1]))])
    assert not agree
    assert {t.name for t in topics} == {"a", "b"}
    topics, agree = listing.merge_metadata(one, [topic("a", partition(0, [1]), identity=1)])
    assert not agree
    assert [t.topic_id for t in topics] == [one[0].topic_id]
