"""Which changes are reported as events, and which are not."""

from tests.builders import (
    NOW_MS,
    Group,
    Log,
    Partition,
    a_state,
    brokers_frame,
    empty,
    group_offsets_frame,
    groups_frame,
    partitions_frame,
    replicas_frame,
)
from tests.cycles import cycle_frames, listed_frames
from twin.builtin import CATALOG
from twin.step import step

LATER_MS = NOW_MS + 5_000
MIB = 1 << 20


def events(before, *frames):
    return {c.kind: c for c in step(before, frames, LATER_MS)[1]}


def kinds(before, *frames):
    return [c.kind for c in step(before, frames, LATER_MS)[1]]


def test_a_twin_that_starts_reports_nothing():
    first = empty()
    frames = cycle_frames([Partition()])
    assert step(first, frames, NOW_MS)[1] == []


def test_the_same_again_is_no_event():
    same = listed_frames([Partition()], LATER_MS)
    assert kinds(a_state(brokers=(1, 2, 3)), *same) == []


def test_a_leader_that_moves_is_reported_with_both_brokers():
    moved = events(a_state(), partitions_frame([Partition(leader=2, epoch=2)], LATER_MS))
    assert moved["leader_moved"].text == "t-0 is led by 2, was 1"
    assert (moved["leader_moved"].before, moved["leader_moved"].after) == ((1,), (2,))


def test_a_partition_that_goes_offline_opens_a_risk():
    offline = Partition(leader=-1, offline=(1, 2, 3), epoch=2)
    by_kind = events(a_state(), partitions_frame([offline], LATER_MS))
    assert by_kind["leader_moved"].text == "t-0 lost its leader 1: it is offline"
    assert by_kind["risk_opened"].detail == "partition_offline"


def test_isr_changes_name_who_left_and_who_joined():
    small = a_state(Partition(isr=(1, 2)))
    by_kind = events(small, partitions_frame([Partition(isr=(1, 3))], LATER_MS))
    assert by_kind["isr_shrank"].text == "t-0: replica 2 left the ISR, [1, 3] stay"
    assert by_kind["isr_expanded"].text == "t-0: replica 3 joined the ISR [1, 3]"


def test_a_reassignment_is_not_mistaken_for_an_isr_change():
    state = a_state(Partition(replicas=(1, 2)))
    reordered = partitions_frame([Partition(replicas=(2, 1), leader=1)], LATER_MS)
    assert kinds(state, reordered) == ["reassigned"]


def test_a_replica_that_grows_past_the_threshold_becomes_warm():
    cold = a_state(
        Partition(logs={2: Log(local_start=1, size_bytes=1)}, log=Log(size_bytes=2 * MIB)),
        eligible_local_log_bytes=MIB,
    )
    grown = replicas_frame([Partition(log=Log(size_bytes=2 * MIB))], LATER_MS)
    assert events(cold, grown)["replica_warm"].broker == 2


def test_created_and_deleted_partitions_are_reported_once():
    changes = kinds(a_state(Partition("a")), partitions_frame([Partition("b")], LATER_MS))
    assert sorted(changes) == ["partition_created", "partition_deleted"]


def test_a_topic_that_is_made_anew_is_deleted_before_it_is_created():
    changes = kinds(a_state(), partitions_frame([Partition(topic_id=b"new")], LATER_MS))
    assert changes == ["partition_deleted", "partition_created"]


def test_groups_with_offsets_of_the_topic_before_are_named():
    """KAFKA-12257: what they committed means nothing in the new topic."""
    group = Group(name="billing", offsets=[(Partition(), 50)])
    groups = [groups_frame([group]), group_offsets_frame([group])]
    state, _ = step(a_state(), groups, NOW_MS)
    made = events(state, partitions_frame([Partition(topic_id=b"new")], LATER_MS))
    assert made["partition_created"].text == (
        "t-0 was created: another topic of that name; "
        "offsets that billing committed are of the old one"
    )


def test_brokers_that_stop_answering_or_are_fenced_are_reported():
    state = a_state(brokers=(1, 2, 3))
    changes = kinds(state, brokers_frame([1, 2, 4], LATER_MS, fenced=[1], silent=[2]))
    assert changes == ["broker_registered", "broker_unregistered", "broker_fenced", "broker_silent"]


def test_only_one_shard_reports_brokers():
    frame = brokers_frame([1], shard=1, shards=2)
    state, _ = step(empty("c", 1, 2), [frame], NOW_MS)
    silent = brokers_frame([1], LATER_MS, silent=[1], shard=1, shards=2)
    assert kinds(state, silent) == []


def test_a_repeated_event_has_one_id_and_two_events_have_two():
    state = a_state()
    frame = partitions_frame([Partition(leader=-1, isr=(), epoch=2)], LATER_MS)
    ids = [[c.id for c in step(state, [frame], LATER_MS)[1]] for _ in range(2)]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == len(ids[0]) > 2


def test_every_risk_is_reported_with_a_sentence_of_its_own():
    assert len({risk.sentence for risk in CATALOG.risks}) == len(CATALOG.risks)
    offline = Partition(leader=-1, offline=(1, 2, 3), epoch=2)
    by_kind = events(a_state(), partitions_frame([offline], LATER_MS))
    sentence = {risk.name: risk.sentence for risk in CATALOG.risks}["partition_offline"]
    assert by_kind["risk_opened"].text == f"t-0: {sentence}"
