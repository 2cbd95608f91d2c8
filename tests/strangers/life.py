"""The steps of a cluster's life; each ends when Kafka is at rest again."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kafka import TopicPartition
from kafka.errors import KafkaError

from streaming.lab.local_cluster import ClusterError
from streaming.runtime.deadline import Deadline
from tests.cluster.broker_client import LATEST, TOPIC_RESOURCE, BrokerClient, Key
from tests.strangers.agreement import disagreements
from tests.strangers.kinds import BROKERS, Kind
from tests.strangers.setup import Stranger, fill

BROKERS_ONLY: Final = (4, 5)
AWAY_S: Final = 3.0
SETTLES_WITHIN_S: Final = 30.0
UNCLEAN: Final = 1  # an ElectionType
NEW_RECORDS: Final = 40
SHOWN: Final = 10
DISK_FAILS_WITHIN_S: Final = 60.0
"""A broker writes a checkpoint into each log directory every five seconds, and finds out."""

DISK_TOLD_WITHIN_S: Final = 15.0
"""The twin asks in each cycle of two seconds."""

RISK_RIGHT_WITHIN_S: Final = 90.0
"""The risk of another broker stays open for a minute after its directory is back."""

LIVING: Final = (
    Kind("living single", 3, 1, "", {"min.insync.replicas": "2"}, partitions=3),
    Kind("living pair", 3, 2, "", {}, partitions=3),
    Kind("living three", 4, 3, "", {"min.insync.replicas": "2"}, partitions=4),
    Kind("living tiered", 2, 3, "", {
        "remote.storage.enable": "true", "internal.segment.bytes": "16384",
        "local.retention.bytes": "60000", "file.delete.delay.ms": "100",
    }, partitions=2, records=120),
)  # fmt: skip
"""The topics that steps change; others are there as well."""


@dataclass
class Life:
    """A cluster and the dice."""

    stranger: Stranger
    rng: random.Random
    made: int = 0
    living: dict[str, int] = field(default_factory=dict)  # number of partitions by topic
    objections: list[str] = field(default_factory=list)

    def agree(self, after: str) -> None:
        """Compare the twin with Kafka now, and note where they differ."""
        lines = disagreements(self.stranger)
        self.objections += [f"{after}: {line}" for line in lines]
        for line in lines[:SHOWN]:
            self.stranger.say(f"NO: {line}")

    @property
    def client(self) -> BrokerClient:
        """Asks brokers directly."""
        return BrokerClient(self.stranger.cluster)

    def topic(self, *beginnings: str) -> str:
        """One of the living topics whose name begins so."""
        names = sorted(t for t in self.living if t.startswith(beginnings or ("living",)))
        return self.rng.choice(names or sorted(self.living))

    def partition(self, topic: str) -> Key:
        """The first partition of a topic, which others depend on, or any."""
        return topic, self.rng.choice((0, self.rng.randrange(self.living[topic])))

    def create(
        self, topic: str, replicas: int, configs: Mapping[str, str], partitions: int
    ) -> None:
        """Make a living topic somewhere, and write to it."""
        placed = [self.brokers(replicas) for _ in range(partitions)]
        self.stranger.create(topic, placed, configs)
        self.living[topic] = partitions
        self.write(topic)

    def write(self, topic: str) -> None:
        """Some records in each partition."""
        made = Kind(topic, 1, 1, "", records=NEW_RECORDS)
        fill(self.stranger.cluster.bootstrap, made, topic, self.living[topic])

    def brokers(self, count: int) -> list[int]:
        """That many brokers, in any order."""
        return self.rng.sample(range(1, BROKERS + 1), count)

    def restart(self, broker: int, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Stop a broker in good order, do something, and start it; ends when all is in sync."""
        cluster = self.stranger.cluster
        with suppress(ClusterError):  # on a busy machine it may take too long
            cluster.term(broker)
        if cluster.status()[broker - 1].state != "stopped":
            cluster.kill(broker)
        try:
            meanwhile()
            self.stranger.pause(AWAY_S)
        finally:
            cluster.start([broker])
        settles = Deadline.after_s(SETTLES_WITHIN_S)

        def is_in_sync() -> bool:
            if settles.is_over:
                self.elect_unclean()
            return self.stranger.in_sync()

        self.stranger.until(is_in_sync, 180, f"not all in sync after broker {broker}")

    def elect_unclean(self) -> None:
        """Let any live replica lead where none may, as an operator does who has given up on them.

        Kafka elects nobody where the ISR is empty and several replicas are the last known ones, as
        after the only replica of a partition that was moved came back with an empty disk.
        """
        with self.stranger.admin() as admin:
            admin.elect_leaders(UNCLEAN, None, raise_errors=False)


Step = Callable[[Life], str]


def topic_made(life: Life) -> str:
    """A topic is made."""
    life.made += 1
    replicas = life.rng.choice((1, 2, 3))
    topic = f"living-made-{life.made:02}"
    life.create(topic, replicas, {"min.insync.replicas": str(life.rng.choice((1, 2)))},
                life.rng.randint(1, 6))  # fmt: skip
    return f"{topic} with {replicas} replicas"


def topic_deleted(life: Life) -> str:
    """A topic is deleted; another of its sort is made, or they would run out."""
    topic = life.topic()
    del life.living[topic]
    del life.stranger.topics[topic]
    with life.stranger.admin() as admin:
        admin.delete_topics([topic], timeout_ms=20_000)
    life.stranger.until(lambda: topic not in life.client.topics(1), 60, f"{topic} is not deleted")
    return f"{topic}; {topic_made(life)}"


def topic_made_anew(life: Life) -> str:
    """A topic is deleted and made again under its name, with other partitions."""
    topic = life.topic()
    replicas = len(life.client.partition(1, topic).replicas)
    with life.stranger.admin() as admin:
        admin.delete_topics([topic], timeout_ms=20_000)
    life.stranger.until(lambda: topic not in life.client.topics(1), 60, f"{topic} is not deleted")
    life.create(topic, replicas, {"min.insync.replicas": "2"}, life.rng.randint(1, 5))
    return topic


def topic_grown(life: Life) -> str:
    """A topic gets more partitions."""
    topic = life.topic()
    count = life.living[topic] + life.rng.randint(1, 3)
    with life.stranger.admin() as admin:
        admin.create_partitions({topic: count}, timeout_ms=20_000)
    life.living[topic] = life.stranger.topics[topic] = count
    life.stranger.until(
        lambda: sum(key[0] == topic for key in life.client.partitions(1, [topic])) == count,
        60,
        f"{topic} does not grow",
    )
    life.write(topic)
    return f"{topic} to {count}"


def topic_tiered(life: Life) -> str:
    """remote.storage.enable is switched on."""
    topic = life.topic("living-three", "living-pair")
    life.client.configure(
        TOPIC_RESOURCE, topic, remote_storage_enable="true", local_retention_bytes="60000"
    )
    life.write(topic)
    return topic


def replicas_moved(life: Life) -> str:
    """A partition moves to other brokers."""
    key = life.partition(life.topic())
    count = len(life.client.partition(1, *key).replicas)
    return _reassigned(life, key, life.brokers(count))


def replicas_added_or_removed(life: Life) -> str:
    """A partition gets more replicas, or fewer; the other partitions of its topic do not."""
    key = life.partition(life.topic("living-single", "living-three"))
    before = list(life.client.partition(1, *key).replicas)
    count = life.rng.choice([n for n in (1, 2, 3, 4) if n != len(before)])
    others = [b for b in life.brokers(BROKERS) if b not in before]
    return _reassigned(life, key, (before + others)[:count])


def first_replicas_added(life: Life) -> str:
    """The first partition of a topic of single replicas gets others; the controller counts them."""
    topic = life.topic("living-single")
    before = list(life.client.partition(1, topic).replicas)
    others = [b for b in life.brokers(BROKERS) if b not in before]
    return _reassigned(life, (topic, 0), [*before, *others][: life.rng.choice((2, 3))])


def _reassigned(life: Life, key: Key, brokers: list[int]) -> str:
    with life.stranger.admin() as admin:
        admin.alter_partition_reassignments({TopicPartition(*key): brokers})
    life.stranger.until(
        lambda: (
            (now := life.client.partition(1, *key)).is_in_sync and set(now.replicas) == set(brokers)
        ),
        120,
        f"{key} does not move",
    )
    return f"{key[0]}-{key[1]} to {brokers}"


def min_isr_changed(life: Life) -> str:
    """min.insync.replicas of a topic is changed."""
    topic, least = life.topic(), str(life.rng.choice((1, 2, 3)))
    life.client.configure(TOPIC_RESOURCE, topic, min_insync_replicas=least)
    return f"{topic} to {least}"


def retention_changed(life: Life) -> str:
    """retention.ms of a topic is changed: some records are deleted."""
    topic, retention = life.topic(), life.rng.choice(("20000", "3600000"))
    life.client.configure(TOPIC_RESOURCE, topic, retention_ms=retention)
    return f"{topic} to {retention} ms"


def records_deleted(life: Life) -> str:
    """DeleteRecords."""
    topic = life.topic()
    places = [TopicPartition(topic, n) for n in range(life.living[topic])]
    with life.stranger.admin() as admin:
        deleted = {p: life.rng.randint(1, NEW_RECORDS // 2) for p in places}
        with suppress(KafkaError):  # fewer records are left than that
            admin.delete_records(deleted, timeout_ms=20_000)
    return topic


def preferred_elected(life: Life) -> str:
    """Leaders go back to the first replicas."""
    with life.stranger.admin() as admin:
        admin.elect_leaders(0, None, raise_errors=False)
    return "everywhere"


def three_restarted(life: Life) -> str:
    """Three brokers are restarted one after the other, within five minutes."""
    began_s, brokers = time.monotonic(), life.brokers(3)
    for broker in brokers:
        life.restart(broker)
    return f"{brokers} in {time.monotonic() - began_s:.0f} s"


def disk_emptied(life: Life) -> str:
    """A broker comes back with empty disks, and copies what others have."""
    broker = life.rng.choice(BROKERS_ONLY)
    disks = life.stranger.cluster.layout.disks(broker)

    def empty() -> None:
        for disk in disks:
            for path in disk.iterdir():
                if path.name not in ("meta.properties", "bootstrap.checkpoint"):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    alone = ends_of(life.client, broker)
    life.restart(broker, empty)
    now = {(s.topic_id, key[1]): (key, s) for key, s in life.client.partitions(1).items()}
    for lost, end in alone.items():
        if lost in now:
            key, state = now[lost]
            if life.client.offset(state.leader, *key, LATEST) < end:
                life.stranger.lost.add(lost)
    return f"broker {broker}"


def ends_of(client: BrokerClient, broker: int) -> dict[tuple[bytes, int], int]:
    """Log ends of the partitions that have a replica in sync on that broker alone."""
    return {
        (state.topic_id, key[1]): client.offset(broker, *key, LATEST)
        for key, state in client.partitions(1).items()
        if state.isr == {broker}
    }


def log_dir_taken_away(life: Life) -> str:
    """One of two log directories of a broker fails, and is there again after a restart."""
    broker = life.rng.choice(BROKERS_ONLY)
    disk = life.stranger.cluster.layout.disks(broker)[1]
    aside = disk.with_name("aside")
    disk.rename(aside)
    disk.write_text("not a folder\n")
    try:
        life.stranger.until(
            lambda: not life.stranger.in_sync(),
            DISK_FAILS_WITHIN_S,
            f"broker {broker} does not notice that a log directory is gone",
        )
        life.agree(f"a log directory of broker {broker} is gone")
        life.objections += lasting(
            life.stranger,
            DISK_TOLD_WITHIN_S,
            lambda: wrong_about_disks(life.stranger, broker, disk),
        )
        life.objections += lasting(
            life.stranger, RISK_RIGHT_WITHIN_S, lambda: wrong_about_risk(life.stranger, broker)
        )
    finally:
        with suppress(ClusterError):
            life.stranger.cluster.term(broker)
        disk.unlink()
        aside.rename(disk)
        life.stranger.cluster.start([broker])
    life.stranger.until(life.stranger.in_sync, 180, f"not all in sync after broker {broker}")
    return f"broker {broker}"


def lasting(stranger: Stranger, within_s: float, wrong: Callable[[], list[str]]) -> list[str]:
    """What is wrong still after that time; nothing once nothing is."""
    deadline = Deadline.after_s(within_s)
    while (found := wrong()) and not deadline.is_over:
        stranger.pause(1)
    return found


def wrong_about_risk(stranger: Stranger, broker: int) -> list[str]:
    """Another broker than that one has the open risk, or it has none."""
    at_risk = stranger.get("summary")["cluster_risks"]["log_dir_failed"]["brokers"]
    return [] if at_risk == [broker] else [f"brokers at risk: {at_risk} in the API, not [{broker}]"]


def wrong_about_disks(stranger: Stranger, broker: int, failed: Path) -> list[str]:
    """What the twin says else than that one log directory has failed, and what was in it."""
    states = BrokerClient(stranger.cluster).partitions(stranger.a_running_broker())
    offline = {key for key, state in states.items() if broker in state.offline}
    disks = stranger.get("brokers/log-dirs?limit=1000")["log_dirs"]
    named = {
        (each["broker"], each["log_dir"]): {(p["topic"], p["partition"]) for p in each["offline"]}
        for each in disks
        if each["has_failed"]
    }
    of_brokers = Counter(each["broker"] for each in disks)
    # All directories of the cluster are on one volume of this machine.
    volumes = {(each["broker"], each["volume"]) for each in disks if each["broker"] != broker}
    expected = {
        "directories that have failed": (named, {(broker, str(failed)): offline}),
        "directories of each broker": (set(of_brokers.values()), {2}),
        "volumes of each other broker": (len(volumes), len(of_brokers) - 1),
    }
    return [
        f"{what}: {mine} in the API, not {theirs}"
        for what, (mine, theirs) in expected.items()
        if mine != theirs
    ]


DECK: Final[tuple[Step, ...]] = (
    three_restarted, replicas_added_or_removed, topic_made_anew, disk_emptied, log_dir_taken_away,
    topic_made, topic_deleted, topic_grown, topic_tiered, replicas_moved, min_isr_changed,
    retention_changed, records_deleted, preferred_elected, first_replicas_added,
)  # fmt: skip
"""All steps."""
