"""Changes over the admin protocol: each guard rail, with brokers that answer like Kafka's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ElectLeadersRequest

from streaming.plans import journal
from streaming.plans.admin import Admin
from streaming.plans.apply import Applier, ChangeOutcome, ChangeResult, RateLimit
from streaming.plans.journal import Journal
from streaming.plans.plan import Origin, Plan, PlanError, PlannedChange
from streaming.runtime.config import ClusterConfig, Config
from tests.collector.fake_broker import FakeCluster, Partition, Topic, World, fake_cluster
from twin.declarations.table import NO_BROKER

ALTER, ELECT = AlterPartitionReassignmentsRequest, ElectLeadersRequest


@pytest.fixture
def kafka() -> Iterator[FakeCluster]:
    """Three brokers with a topic of four partitions."""
    topic = Topic({number: Partition([1, 2, 3], epoch=5) for number in range(4)})
    with fake_cluster(World({"t": topic})) as cluster:
        yield cluster


@pytest.fixture
def stop() -> threading.Event:
    return threading.Event()


def change(
    kafka: FakeCluster, number: int = 0, planned: tuple[int, ...] = (1, 3, 2)
) -> PlannedChange:
    """A change that was planned for what Kafka has now."""
    topic = kafka.world.topics["t"]
    held = topic.partitions[number]
    leader = -1 if held.leader is None else held.leader
    return PlannedChange(
        "t", str(topic.topic_id), number, tuple(held.replicas), planned, leader, held.epoch,
        NO_BROKER,
    )  # fmt: skip


def plan(*changes: PlannedChange) -> Plan:
    return Plan("order", "c", 0, changes)


def with_applier(
    kafka: FakeCluster, folder: Path, stop: threading.Event,
    act: Callable[[Applier], list[ChangeResult]], per_minute: int = 50,
) -> list[ChangeResult]:  # fmt: skip
    config = Config(cluster=ClusterConfig(name="c", bootstrap=kafka.bootstrap))
    with Journal(folder, Origin("c")) as written, Admin(config) as admin:
        return act(Applier(admin, written, RateLimit(per_minute), stop))


def applied(kafka: FakeCluster, folder: Path, *changes: PlannedChange) -> list[ChangeOutcome]:
    results = with_applier(kafka, folder, threading.Event(), lambda a: a.apply(changes))
    return [result.outcome for result in results]


def orders(kafka: FakeCluster) -> list[list[int]]:
    return [p.replicas for p in kafka.world.topics["t"].partitions.values()]


def asked(kafka: FakeCluster, api: type) -> int:
    return sum(len(broker.asked_of(api)) for broker in kafka.brokers.values())


def recorded(folder: Path) -> dict[int, tuple[int, ...]]:
    """The order that the journal would bring back, by partition."""
    _, changed = journal.read(folder / journal.FILE)
    return {key[1]: original.replicas for key, original in changed.items()}


def test_an_order_is_changed_and_nobody_is_elected(kafka: FakeCluster, tmp_path: Path):
    assert applied(kafka, tmp_path, change(kafka)) == [ChangeOutcome.DONE]
    assert orders(kafka)[0] == [1, 3, 2]
    assert kafka.world.topics["t"].partitions[0].epoch == 5
    assert asked(kafka, ELECT) == 0
    assert recorded(tmp_path) == {0: (1, 2, 3)}


def test_a_leadership_is_moved_by_an_order_and_a_preferred_election(
    kafka: FakeCluster, tmp_path: Path
):
    demoted = replace(change(kafka, planned=(3, 2, 1)), elect=3)
    assert applied(kafka, tmp_path, demoted) == [ChangeOutcome.DONE]
    held = kafka.world.topics["t"].partitions[0]
    assert (held.replicas, held.leader, held.epoch) == ([3, 2, 1], 3, 6)


def test_a_leader_that_kafka_does_not_elect_is_said(kafka: FakeCluster, tmp_path: Path):
    kafka.world.topics["t"].partitions[0].isr = [1, 2]
    demoted = replace(change(kafka, planned=(3, 2, 1)), elect=3)
    [result] = with_applier(kafka, tmp_path, threading.Event(), lambda a: a.apply([demoted]))
    assert result.outcome is ChangeOutcome.REFUSED
    assert "PreferredLeaderNotAvailable" in result.detail
    assert recorded(tmp_path) == {0: (1, 2, 3)}  # the order was changed, so it can be restored


# ---------------------------------------------------------------- guard rails


@pytest.mark.parametrize(
    ("meanwhile", "outcome"),
    [
        ({"replicas": [1, 2, 4]}, ChangeOutcome.OTHER_REPLICAS),
        ({"replicas": [1, 2, 3, 4], "adding": [4]}, ChangeOutcome.REASSIGNING),
        ({"replicas": [1, 2, 3], "removing": [2]}, ChangeOutcome.REASSIGNING),
        ({"replicas": [2, 1, 3]}, ChangeOutcome.CHANGED_MEANWHILE),
        ({"epoch": 6}, ChangeOutcome.CHANGED_MEANWHILE),
        ({"replicas": [1, 3, 2]}, ChangeOutcome.NOT_NEEDED),
    ],
)
def test_a_partition_that_is_not_as_it_was_planned_for_is_left_alone(
    kafka: FakeCluster, tmp_path: Path, meanwhile: dict[str, object], outcome: ChangeOutcome
):
    planned = change(kafka)
    for name, value in meanwhile.items():
        setattr(kafka.world.topics["t"].partitions[0], name, value)
    assert applied(kafka, tmp_path, planned) == [outcome]
    assert asked(kafka, ALTER) == 0
    assert recorded(tmp_path) == {}


def test_a_topic_that_was_created_anew_or_deleted_is_left_alone(kafka: FakeCluster, tmp_path: Path):
    planned = change(kafka)
    kafka.world.topics["t"] = Topic({0: Partition([1, 2, 3], epoch=5)})
    assert (
        applied(kafka, tmp_path, planned, replace(planned, topic="u")) == [ChangeOutcome.GONE] * 2
    )
    assert asked(kafka, ALTER) == 0


def test_a_changed_leader_epoch_is_planned_anew(
    kafka: FakeCluster, tmp_path: Path, stop: threading.Event
):
    first = plan(change(kafka), change(kafka, 1))
    kafka.world.topics["t"].partitions[0].epoch = 6
    observed = iter([first, plan(replace(change(kafka), planned=(1, 3, 2)))])
    results = with_applier(
        kafka, tmp_path, stop, lambda a: a.apply_all(first, lambda: next(observed))
    )
    assert {str(r.change): r.outcome for r in results} == {
        "t-0": ChangeOutcome.DONE,
        "t-1": ChangeOutcome.DONE,
    }
    assert orders(kafka)[:2] == [[1, 3, 2], [1, 3, 2]]


def test_what_a_new_plan_does_not_need_is_not_done(
    kafka: FakeCluster, tmp_path: Path, stop: threading.Event
):
    first = plan(change(kafka))
    kafka.world.topics["t"].partitions[0].epoch = 6
    results = with_applier(kafka, tmp_path, stop, lambda a: a.apply_all(first, plan))
    assert [r.outcome for r in results] == [ChangeOutcome.NOT_NEEDED]
    assert asked(kafka, ALTER) == 0


@pytest.mark.parametrize("operation", ["order", "demote"])
def test_a_missing_right_is_one_line_and_nothing_more_is_tried(
    kafka: FakeCluster, tmp_path: Path, operation: str
):
    kafka.world.denied |= {ALTER.API_KEY} if operation == "order" else {ELECT.API_KEY}
    changes = [replace(change(kafka, n, (3, 2, 1)), elect=3) for n in range(4)]
    with pytest.raises(PlanError, match="ALTER on the cluster is not granted") as raised:
        applied(kafka, tmp_path, *changes)
    assert "\n" not in str(raised.value)
    assert "`kafka-twin check --acls User:NAME` prints the command" in str(raised.value)
    assert asked(kafka, ALTER) == 1


def test_at_most_so_many_changes_are_made_a_minute(
    kafka: FakeCluster, tmp_path: Path, stop: threading.Event
):
    changes = [change(kafka, n) for n in range(4)]
    results = with_applier(kafka, tmp_path, stop, lambda a: a.apply(changes), per_minute=3)
    assert [r.outcome for r in results] == [ChangeOutcome.DONE] * 3
    assert orders(kafka)[3] == [1, 2, 3]


def test_the_rate_is_of_any_minute_and_not_of_the_clocks():
    now_s = [0.0]
    limit = RateLimit(2, lambda: now_s[0])
    for at_s, left_s in ((0, 0), (50, 0), (51, 9), (60, 0), (61, 49), (110, 0)):
        now_s[0] = at_s
        assert limit.left_s == left_s
        if not left_s:
            limit.count()


def test_what_was_done_before_a_stop_is_known_and_can_be_restored(
    kafka: FakeCluster, tmp_path: Path, stop: threading.Event
):
    broker_answers = kafka.brokers[1]._AlterPartitionReassignmentsRequest
    for broker in kafka.brokers.values():

        def stop_after(request: object, version: int) -> object:
            stop.set()
            return broker_answers(request, version)

        broker.answers[ALTER.API_KEY] = stop_after
    first = plan(*(change(kafka, n) for n in range(4)))
    results = with_applier(kafka, tmp_path, stop, lambda a: a.apply_all(first, lambda: first))
    assert [r.outcome for r in results] == [ChangeOutcome.DONE] + [ChangeOutcome.INTERRUPTED] * 3
    assert recorded(tmp_path) == {0: (1, 2, 3)}
    restored(kafka, tmp_path)
    assert orders(kafka) == [[1, 2, 3]] * 4
    assert recorded(tmp_path) == {}


def restored(kafka: FakeCluster, folder: Path) -> list[ChangeOutcome]:
    _, changed = journal.read(folder / journal.FILE)
    results = with_applier(
        kafka, folder, threading.Event(), lambda a: a.restore_all(changed.values())
    )
    return [result.outcome for result in results]


@pytest.mark.parametrize("was_changed", [True, False])
def test_a_change_that_nobody_saw_the_end_of_is_restored_if_kafka_has_made_it(
    kafka: FakeCluster, tmp_path: Path, was_changed: bool
):
    with Journal(tmp_path, Origin("c")) as written:
        written.begin("order", change(kafka), at_ms=1)
    with (tmp_path / journal.FILE).open("a") as file:
        file.write('{"state": "beg')  # killed while it wrote
    assert recorded(tmp_path) == {0: (1, 2, 3)}
    kafka.world.topics["t"].partitions[0].replicas = [1, 3, 2] if was_changed else [1, 2, 3]
    assert restored(kafka, tmp_path) == [
        ChangeOutcome.DONE if was_changed else ChangeOutcome.NOT_NEEDED
    ]
    assert orders(kafka)[0] == [1, 2, 3]
    assert recorded(tmp_path) == {}


def test_a_leadership_comes_back_with_the_order(kafka: FakeCluster, tmp_path: Path):
    demoted = replace(change(kafka, planned=(3, 2, 1)), elect=3)
    assert applied(kafka, tmp_path, demoted) == [ChangeOutcome.DONE]
    assert restored(kafka, tmp_path) == [ChangeOutcome.DONE]
    held = kafka.world.topics["t"].partitions[0]
    assert (held.replicas, held.leader) == ([1, 2, 3], 1)


def test_of_several_changes_the_first_order_is_brought_back(kafka: FakeCluster, tmp_path: Path):
    assert applied(kafka, tmp_path, change(kafka, planned=(1, 3, 2))) == [ChangeOutcome.DONE]
    assert applied(kafka, tmp_path, change(kafka, planned=(3, 1, 2))) == [ChangeOutcome.DONE]
    assert recorded(tmp_path) == {0: (1, 2, 3)}
    assert restored(kafka, tmp_path) == [ChangeOutcome.DONE]
    assert orders(kafka)[0] == [1, 2, 3]


def test_other_replicas_are_not_restored(kafka: FakeCluster, tmp_path: Path):
    assert applied(kafka, tmp_path, change(kafka)) == [ChangeOutcome.DONE]
    kafka.world.topics["t"].partitions[0].replicas = [1, 4, 2]
    assert restored(kafka, tmp_path) == [ChangeOutcome.OTHER_REPLICAS]
    assert orders(kafka)[0] == [1, 4, 2]


def test_a_cluster_that_does_not_answer_is_one_line(tmp_path: Path):
    config = Config(
        cluster=ClusterConfig(bootstrap="127.0.0.1:1", client={"bootstrap_timeout_ms": 500})
    )
    with pytest.raises(PlanError, match=r"cluster 127\.0\.0\.1:1: cannot be reached"):
        Admin(config)


def test_a_journal_that_another_plan_writes_is_refused(tmp_path: Path):
    with (
        Journal(tmp_path, Origin("c")),
        pytest.raises(PlanError, match="is in use by another plan"),
        Journal(tmp_path, Origin("c")),
    ):
        pass
    with Journal(tmp_path, Origin("c")):
        pass


def test_a_journal_of_another_cluster_is_refused(tmp_path: Path):
    with Journal(tmp_path, Origin("c")):
        pass
    with pytest.raises(PlanError, match="of cluster c, not of d"):
        Journal(tmp_path, Origin("d"))


@pytest.mark.parametrize("text", ["", "{}", "nonsense", '{"partitions": [{"topic": "t"}]}'])
def test_a_file_that_is_no_journal_is_one_line(tmp_path: Path, text: str):
    (tmp_path / "x").write_text(text)
    with pytest.raises(PlanError, match="neither a journal of a plan nor a restore file"):
        journal.read(tmp_path / "x")
