"""Incidents that were measured on real clusters, replayed on the demo's brokers.

Each prints the twin's prediction, causes the incident, and prints what Kafka did. With Prometheus
it also waits until the alert fires and resolves. ``ScriptFailed`` says which prediction failed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from streaming.lab.scripts.stage import LOOK_S, SOON_S, ScriptFailed, Stage, _key
from streaming.lab.traffic import COLD_TOPIC

FENCED_S: Final = 45.0
SLOW_RESOLVES_S: Final = 600.0
"""The alert stays for five minutes after a shrink; a later script may cause another shrink."""


WRITERS: Final = 8
ATTEMPTS: Final = 10

IDLE_TOPIC, STEADY_TOPIC = "archive", "steady"
LAG_MS: Final = 3_000
"""replica.lag.time.max.ms for slow-leader; with the default of 30 s no ISR would shrink."""

LEADERS_FAULT: Final = ("slow_leader", "frozen_leader")

_PREFERRED: Final = 0
_TIERED: Final = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "16384",
    "file.delete.delay.ms": "100",
}


def failover(stage: Stage) -> None:
    """A broker crashes, and the predicted replicas become leaders."""
    topic = "scratch"
    broker = stage.until(
        lambda: stage.partition(topic).get("leader"), SOON_S, f"nobody leads {topic}"
    )
    _await_whole(stage, broker)
    stage.say(f"look       {stage.exporter}/#/?lose={broker} shows who would lead if it were lost")
    stage.stop.wait(LOOK_S)
    partitions = _await_whole(stage, broker)
    predicted = {_key(p): p["next_leaders"]["kafka"]["leader"] for p in partitions}
    nobody = sum(leader < 0 for leader in predicted.values())
    stage.say(
        f"prediction if broker {broker} crashes, each of the {len(predicted)} partitions it leads "
        f"gets the leader that the twin names; {nobody} of them nobody"
    )
    stage.cluster.kill(broker)
    stage.say(f"action     broker {broker} was killed; Kafka fences it in about 9 s")
    try:
        leaders = stage.until(
            lambda: _moved(stage, predicted, broker), FENCED_S, "nobody took over"
        )
        right = sum(leaders[key] == leader for key, leader in predicted.items())
        stage.say(f"Kafka      elected as predicted in {right} of {len(predicted)} partitions")
        if right < len(predicted):
            wrong = next(key for key in predicted if leaders[key] != predicted[key])
            raise ScriptFailed(
                f"{wrong[0]}-{wrong[1]} is led by {leaders[wrong]}, "
                f"predicted was {predicted[wrong]}"
            )
        stage.fires("KafkaTwinPartitionOffline")
        stage.stop.wait(LOOK_S)
    finally:
        stage.cluster.start()
    stage.say(f"action     broker {broker} was started again")
    stage.resolves("KafkaTwinPartitionOffline")


def _await_whole(stage: Stage, broker: int) -> list[dict[str, Any]]:
    """Wait until all partitions that a broker leads are whole, and return them."""
    return stage.until(
        lambda: _led_at_rest(stage, broker),
        SOON_S,
        f"a partition that broker {broker} leads is not whole, for Kafka or for the twin,",
    )


def _led_at_rest(stage: Stage, broker: int) -> list[dict[str, Any]]:
    """Partitions that a broker leads; empty unless all of them are fully in sync."""
    answer = stage.api(f"partitions?broker={broker}&limit=1000") or {"partitions": []}
    partitions = [p for p in answer["partitions"] if p["leader"] == broker]
    return partitions if stage.is_at_rest(partitions) else []


def _moved(
    stage: Stage, predicted: dict[tuple[str, int], int], broker: int
) -> dict[tuple[str, int], int] | None:
    leaders = stage.leaders()
    return leaders if all(leaders.get(key, broker) != broker for key in predicted) else None


def cold_leader(stage: Stage) -> None:
    """Kafka elects an almost empty replica while a full one is in sync."""
    key = TopicPartition(COLD_TOPIC, 0)
    # Another script may have moved the leader.
    stage.until(
        lambda: preferred_leads(stage, key), 2 * SOON_S, f"broker 1 does not lead {COLD_TOPIC}-0"
    )
    after = stage.until(
        lambda: _before_cold(stage), SOON_S, f"{COLD_TOPIC}-0 has no cold successor"
    )
    cold, warm = (after["next_leaders"][rule]["leader"] for rule in ("kafka", "kip1303"))
    stage.say(
        f"prediction if broker 1 goes, {COLD_TOPIC}-0 is led by {cold}, which has next to nothing "
        f"on its disk; KIP-1303 would elect {warm}, which has all of it"
    )
    stage.cluster.term(1)
    stage.say("action     broker 1 was shut down in good order")
    try:
        leader = stage.until(
            lambda: (now := stage.leaders().get((COLD_TOPIC, 0), 1)) not in (1, -1) and now,
            SOON_S,
            "nobody took over",
        )
        stage.say(f"Kafka      elected {leader}")
        if leader != cold:
            raise ScriptFailed(f"{COLD_TOPIC}-0 is led by {leader}, predicted was {cold}")
        stage.fires("KafkaTwinLeaderCold")
    finally:
        stage.cluster.start()
    stage.say("action     broker 1 was started again, and leads as soon as it is in sync")
    stage.until(lambda: preferred_leads(stage, key), 2 * SOON_S, "broker 1 does not lead again")
    stage.resolves("KafkaTwinLeaderCold")


def _before_cold(stage: Stage) -> dict[str, Any] | None:
    """The prediction for the loss of broker 1, once it leads and its successor is cold."""
    now = stage.partition(COLD_TOPIC)
    if not now or now["leader"] != 1 or not stage.is_at_rest([now]):
        return None
    return now if now["next_leaders"]["kafka"]["coverage"] == "cold" else None


def preferred_leads(stage: Stage, key: TopicPartition, broker: int = 1) -> bool:
    """Whether that broker, the preferred leader, leads; if not, request its election."""
    if stage.leaders().get((key.topic, key.partition)) == broker:
        return True
    with suppress(KafkaError), KafkaAdminClient(bootstrap_servers=stage.cluster.bootstrap) as admin:
        admin.elect_leaders(_PREFERRED, {key.topic: [key.partition]}, raise_errors=False)
    return False


def stuck_bootstrap(stage: Stage) -> None:
    """A new replica of an idle tiered partition makes no progress until somebody writes."""
    with KafkaAdminClient(bootstrap_servers=stage.cluster.bootstrap) as admin:
        configs = _TIERED | {"local.retention.ms": "1000", "min.insync.replicas": "1"}
        topic = {IDLE_TOPIC: {"assignments": {0: [1, 2]}, "configs": configs}}
        admin.create_topics(topic, timeout_ms=20_000, wait_for_metadata=True)
    _write(stage, IDLE_TOPIC, 400)
    stage.say(f"action     {IDLE_TOPIC}-0 was written, and rests: all of it goes to remote storage")
    path = stage.until(
        lambda: _path_on(stage) == "stuck_idle" and "stuck_idle", 2 * SOON_S, "it is not all tiered"
    )
    stage.say(f"prediction an empty follower that joined now would hang ({path.replace('_', ' ')})")
    with KafkaAdminClient(bootstrap_servers=stage.cluster.bootstrap) as admin:
        admin.alter_partition_reassignments({TopicPartition(IDLE_TOPIC, 0): [3, 1]})
    stage.say("action     the partition was reassigned to broker 3, which has nothing of it")
    stage.until(
        lambda: any(j["stuck"] == "stuck_idle" for j in stage.partition(IDLE_TOPIC)["catching_up"]),
        SOON_S,
        "the twin does not call it stuck",
    )
    stage.say("Kafka      the replica does not move, and the twin says why")
    stage.fires("KafkaTwinBootstrapStuck")
    _write(stage, IDLE_TOPIC, 1)
    stage.say("action     one record was written")
    stage.until(
        lambda: (now := stage.partition(IDLE_TOPIC)) and not now["catching_up"],
        SOON_S,
        "the replica does not join",
    )
    stage.say("Kafka      the replica joined")
    # Its leaders have nearly none of the remote data on disk, so they are cold.
    with KafkaAdminClient(bootstrap_servers=stage.cluster.bootstrap) as admin:
        admin.delete_records({TopicPartition(IDLE_TOPIC, 0): -1}, timeout_ms=20_000)
    stage.resolves("KafkaTwinBootstrapStuck")


def _path_on(stage: Stage) -> str | None:
    follower = stage.partition(IDLE_TOPIC).get("bootstrap")
    return follower["kip1023_on"]["path"] if follower else None


def slow_leader(stage: Stage) -> None:
    """A frozen leader removes a healthy follower from the ISR (KIP-501)."""
    with KafkaAdminClient(bootstrap_servers=stage.cluster.bootstrap) as admin:
        topic = {
            STEADY_TOPIC: {"assignments": {0: [2, 3]}, "configs": {"min.insync.replicas": "1"}}
        }
        admin.create_topics(topic, timeout_ms=20_000, wait_for_metadata=True)
    stage.until(lambda: stage.partition(STEADY_TOPIC), SOON_S, "the twin does not know it")
    stage.say(
        f"prediction if its leader 2 stands still for {2 * LAG_MS // 1000} s, {STEADY_TOPIC}-0 "
        "loses its healthy follower 3 for a moment"
    )
    with _written_to(stage, STEADY_TOPIC):
        for _ in range(ATTEMPTS):  # chance decides whether a record or the follower is first
            # On a slow machine the controller fences broker 1, and 3 leads.
            stage.until(lambda: _both_in_sync(stage), 2 * SOON_S, "broker 2 does not lead again")
            stage.stop.wait(2)
            stage.cluster.pause(2)
            stage.stop.wait(2 * LAG_MS / 1_000)
            stage.cluster.resume(2)
            with suppress(ScriptFailed):
                stage.until(lambda: _shrink(stage), 10, "no shrink")
                break
            if stage.stop.is_set():
                raise ScriptFailed("the demo was ended")
        else:
            raise ScriptFailed(f"the ISR did not shrink in {ATTEMPTS} attempts")
        stage.say("action     broker 2 was frozen and went on")
        # The leader's log reports the shrink first; what explains it may be a cycle behind.
        shrink = stage.until(
            lambda: (s := _shrink(stage)) and s["verdict"] in LEADERS_FAULT and s,
            SOON_S,
            "the twin does not blame the leader",
        )
        # A leader logs a fetch once it has answered it.
        with suppress(ScriptFailed):
            shrink = stage.until(
                lambda: (s := _shrink(stage)) and s["fetch_was_pending"] is not None and s,
                SOON_S,
                "it is not known whether a fetch was pending",
            )
    kept = {True: "would have kept it", False: "would not have kept it", None: "may have kept it"}
    stage.say(
        f"Kafka      {shrink['leader']} threw out {shrink['broker']}; the twin says that "
        f"{shrink['meaning']}, and that KIP-501 {kept[shrink['fetch_was_pending']]}"
    )
    stage.fires("KafkaTwinSlowLeader")
    stage.say("action     nothing: suspicion ends five minutes after the shrink")
    stage.resolves("KafkaTwinSlowLeader", SLOW_RESOLVES_S)


def _both_in_sync(stage: Stage) -> bool:
    """Whether broker 2 leads, with the follower that it may remove from the ISR."""
    now = stage.partition(STEADY_TOPIC)
    leads = preferred_leads(stage, TopicPartition(STEADY_TOPIC, 0), broker=2)
    return leads and now.get("leader") == 2 and now["isr"] == [2, 3]


def _shrink(stage: Stage) -> dict[str, Any] | None:
    shrinks = stage.partition(STEADY_TOPIC).get("isr_shrinks") or []
    return next((shrink for shrink in reversed(shrinks) if shrink["broker"] == 3), None)


def _write(stage: Stage, topic: str, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=stage.cluster.bootstrap, acks="all", linger_ms=5)
    record = os.urandom(1_000)
    for future in [producer.send(topic, record, partition=0) for _ in range(count)]:
        future.get(30)
    producer.close(timeout=5)


@contextmanager
def _written_to(stage: Stage, topic: str) -> Iterator[None]:
    """Run WRITERS producers with acks=1, each sending a record every 50 ms.

    With more writers it is more likely that a record arrives before the follower's fetch.
    """
    over = threading.Event()

    def write() -> None:
        producer = KafkaProducer(
            bootstrap_servers=stage.cluster.bootstrap, acks=1, linger_ms=0, enable_idempotence=False
        )
        while not over.wait(0.05):
            with suppress(KafkaError):
                producer.send(topic, b"x" * 100, partition=0)
        with suppress(KafkaError):
            producer.close(timeout=5)

    writers = [threading.Thread(target=write, name="writer", daemon=True) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        over.set()
        for writer in writers:
            writer.join(timeout=10)
