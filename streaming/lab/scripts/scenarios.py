"""Incidents that were measured on real clusters, replayed on the demo's brokers.

Each prints the twin's prediction, causes the incident, and prints what Kafka did. With Prometheus
it also waits until the alert fires and resolves. ``ScriptFailed`` says which prediction failed.
"""

from __future__ import annotations

import os
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from streaming.lab.cluster import NodeStatus
from streaming.lab.traffic import COLD_TOPIC
from streaming.runtime.deadline import Deadline
from streaming.runtime.errors import UserError

SOON_S: Final = 60.0
FENCED_S: Final = 45.0
SLOW_RESOLVES_S: Final = 600.0
"""The alert stays for five minutes after a shrink; a later script may cause another shrink."""

LOOK_S: Final = 5.0
"""Time for users of the console, which refreshes every 3 s."""

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


class ScriptFailed(UserError, RuntimeError):  # noqa: N818 - said to a person
    """A prediction did not come true, or an alert did not fire or resolve: one line."""


class ScenarioCluster(Protocol):
    """The cluster that a scenario acts on, wherever it runs."""

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers."""

    def status(self) -> list[NodeStatus]:
        """The current state of each node."""

    def kill(self, node: int) -> None:
        """Crash a node."""

    def term(self, node: int) -> None:
        """Shut down a node in good order."""

    def pause(self, node: int) -> None:
        """Freeze a node; its connections stay open."""

    def resume(self, node: int) -> None:
        """Resume a frozen node."""

    def start(self) -> None:
        """Start all nodes that are not running."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The cluster, the twin and the terminal that a scenario works with."""

    cluster: ScenarioCluster
    exporter: str  # URL
    prometheus: str | None  # URL
    say: Callable[[str], None]
    stop: threading.Event
    config: Path | None = None  # of the twin
    metrics_urls: Mapping[int, str] = field(default_factory=dict)  # of the brokers
    to_resolve: dict[str, Deadline] = field(default_factory=dict)  # alerts, and by when

    def api(self, path: str) -> Any:
        """A response of the exporter's API; None if it does not answer."""
        return _get(f"{self.exporter}/api/v1/{path}")

    def partition(self, topic: str, number: int = 0) -> dict[str, Any]:
        """A partition in the exporter's API; empty while the twin does not know it."""
        return self.api(f"partitions/{topic}/{number}") or {}

    def alerts(self) -> dict[str, str]:
        """State of each alert of the twin, by its name: pending or firing."""
        answer = _get(f"{self.prometheus}/api/v1/alerts")
        alerts = answer["data"]["alerts"] if answer else []
        return {a["labels"]["alertname"]: a["state"] for a in alerts}

    def until(self, condition: Callable[[], Any], within_s: float, otherwise: str) -> Any:
        """Wait until a condition is true, and return its value.

        Raises:
            ScriptFailed: it was not true in time, or the demo is being ended.
        """
        deadline = Deadline.after_s(within_s)
        while not (value := condition()):
            if self.stop.wait(0.3):
                raise ScriptFailed("the demo was ended")
            if deadline.is_over:
                raise ScriptFailed(f"{otherwise} after {within_s:.0f} s")
        return value

    def fires(self, alert: str) -> None:
        """Wait until an alert fires, and print that it does."""
        if self.prometheus is None:
            return
        self.until(lambda: self.alerts().get(alert) == "firing", SOON_S, f"{alert} does not fire")
        self.say(f"alert      {alert} fires")

    def resolves(self, alert: str, within_s: float = 2 * SOON_S) -> None:
        """Expect an alert to resolve in time; ``await_alerts_resolved`` waits for it."""
        if self.prometheus is not None:
            self.to_resolve[alert] = Deadline.after_s(within_s)

    def await_alerts_resolved(self) -> None:
        """Wait until every expected alert has resolved, and print each.

        Raises:
            ScriptFailed: an alert still fires at its deadline.
        """
        for alert, deadline in sorted(self.to_resolve.items(), key=lambda item: item[1].at_s):
            self.await_resolved(alert, max(deadline.left_s, SOON_S))
        self.to_resolve.clear()

    def await_resolved(self, alert: str, within_s: float = 2 * SOON_S) -> None:
        """Wait until an alert has resolved, and print that it has.

        Raises:
            ScriptFailed: it still fires.
        """
        if self.prometheus is not None:
            self.until(partial(self._is_quiet, alert), within_s, f"{alert} does not resolve")
            self.say(f"alert      {alert} is resolved")

    def _is_quiet(self, alert: str) -> bool:
        return alert not in self.alerts()

    def leaders(self) -> dict[tuple[str, int], int]:
        """The leader of each partition, from Kafka; empty while Kafka does not answer."""
        return {key: p["leader_id"] for key, p in self._described().items()}

    def is_at_rest(self, partitions: list[dict[str, Any]]) -> bool:
        """All replicas of the partitions are in sync, both in the twin's view and in Kafka's.

        A previous scenario may have removed replicas from an ISR. Until the twin has observed that
        they are back, its prediction is about a state that no longer exists.
        """
        if not all(replica["in_isr"] for p in partitions for replica in p["replicas"]):
            return False
        described = self._described().items()
        whole = {key for key, p in described if set(p["isr_nodes"]) == set(p["replica_nodes"])}
        return whole.issuperset(map(_key, partitions))

    def _described(self) -> dict[tuple[str, int], Any]:
        with suppress(KafkaError), KafkaAdminClient(bootstrap_servers=self.alive()) as admin:
            return {
                (t["name"], p["partition_index"]): p
                for t in admin.describe_topics()
                for p in t["partitions"]
            }
        return {}

    def alive(self) -> list[str]:
        """Addresses of the brokers that run."""
        return [
            f"127.0.0.1:{node.port}" for node in self.cluster.status() if node.state == "running"
        ]


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


def _key(partition: dict[str, Any]) -> tuple[str, int]:
    return partition["topic"], partition["partition"]


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


def _get(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return msgspec.json.decode(answer.read())
    except (urllib.error.URLError, OSError, msgspec.DecodeError):
        return None
