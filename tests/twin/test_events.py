"""What a person hears of, and what is no news."""

from tests.builders import (
    NOW_MS,
    Log,
    Partition,
    a_fleet,
    brokers_frame,
    partitions_frame,
    replicas_frame,
)
from twin import fleet as fleets
from twin.rules.risks import RULES, Risk
from twin.step import step

LATER_MS = NOW_MS + 5_000
MIB = 1 << 20


def heard(before, *frames):
    return {c.kind: c for c in step(before, frames, LATER_MS)[1]}


def kinds(before, *frames):
    return [c.kind for c in step(before, frames, LATER_MS)[1]]


def test_a_twin_that_starts_says_nothing():
    first = fleets.empty("c", 0, 1)
    frames = (brokers_frame(), partitions_frame([Partition()]), replicas_frame([Partition()]))
    assert step(first, frames, NOW_MS)[1] == []


def test_nothing_new_is_no_news():
    same = (partitions_frame([Partition()], LATER_MS), replicas_frame([Partition()], LATER_MS))
    assert kinds(a_fleet(brokers=(1, 2, 3)), *same) == []


def test_a_leader_that_moves_is_told_with_both_names():
    moved = heard(a_fleet(), partitions_frame([Partition(leader=2, epoch=2)], LATER_MS))
    assert moved["leader_moved"].text == "t-0 is led by 2, was 1"
    assert (moved["leader_moved"].before, moved["leader_moved"].after) == ((1,), (2,))


def test_a_partition_that_goes_offline_opens_a_risk():
    told = heard(a_fleet(), partitions_frame([Partition(leader=-1, epoch=2)], LATER_MS))
    assert told["leader_moved"].text == "t-0 lost its leader 1: it is offline"
    assert told["risk_opened"].detail == "offline"


def test_isr_changes_name_who_left_and_who_joined():
    small = a_fleet(Partition(isr=(1, 2)))
    told = heard(small, partitions_frame([Partition(isr=(1, 3))], LATER_MS))
    assert told["isr_shrank"].text == "t-0: replica 2 left the ISR, [1, 3] stay"
    assert told["isr_expanded"].text == "t-0: replica 3 joined the ISR [1, 3]"


def test_a_reassignment_is_not_mistaken_for_an_isr_change():
    fleet = a_fleet(Partition(replicas=(1, 2)))
    told = kinds(fleet, partitions_frame([Partition(replicas=(2, 1), leader=1)], LATER_MS))
    assert told == ["reassigned"]


def test_a_replica_that_grows_past_the_threshold_becomes_eligible():
    thin = a_fleet(
        Partition(logs={2: Log(size_bytes=1)}, log=Log(size_bytes=2 * MIB)),
        eligible_local_log_bytes=MIB,
    )
    grown = replicas_frame([Partition(log=Log(size_bytes=2 * MIB))], LATER_MS)
    assert heard(thin, grown)["replica_eligible"].broker == 2


def test_created_and_deleted_partitions_are_told_once():
    fleet = a_fleet(Partition("a"))
    told = kinds(fleet, partitions_frame([Partition("b")], LATER_MS))
    assert sorted(told) == ["partition_created", "partition_deleted"]


def test_a_recreated_topic_is_one_deletion_and_one_creation():
    told = kinds(a_fleet(), partitions_frame([Partition(topic_id=b"new")], LATER_MS))
    assert sorted(told) == ["partition_created", "partition_deleted"]


def test_brokers_that_stop_answering_or_are_fenced_are_told():
    fleet = a_fleet(brokers=(1, 2, 3))
    told = kinds(fleet, brokers_frame([1, 2, 4], LATER_MS, fenced=[1], silent=[2]))
    assert told == ["broker_registered", "broker_unregistered", "broker_fenced", "broker_silent"]


def test_only_one_shard_speaks_of_brokers():
    frame = brokers_frame([1], shard=1, shards=2)
    fleet, _ = step(fleets.empty("c", 1, 2), [frame], NOW_MS)
    silent = brokers_frame([1], LATER_MS, silent=[1], shard=1, shards=2)
    assert kinds(fleet, silent) == []


def test_a_change_told_twice_has_one_id_and_two_changes_have_two():
    fleet = a_fleet()
    frame = partitions_frame([Partition(leader=-1, isr=(), epoch=2)], LATER_MS)
    ids = [[c.id for c in step(fleet, [frame], LATER_MS)[1]] for _ in range(2)]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == len(ids[0]) > 2


def test_every_risk_has_a_sentence_of_its_own():
    assert [rule.risk for rule in RULES] == list(Risk)
    assert len({rule.sentence for rule in RULES}) == len(Risk)
