"""Divides clusters among collectors, by membership in a consumer group.

Kafka gives each partition of a topic to one member of a group. Nothing is written to this topic:
its partitions are places, over which the clusters are spread evenly, and a collector polls those at
the places that it was given. One that ends leaves the group; of one that dies the others have the
places SESSION_MS later. For that while, or while two have read different files, a cluster is polled
by two or none: two do no harm, since observations are ordered by their time.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeVar
from zlib import crc32

import structlog
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import GroupAuthorizationFailedError, KafkaError

from streaming.bus import bus_topics, connection
from streaming.bus.connection import BusError, failed
from streaming.runtime.config import Config, ConfigError
from streaming.runtime.deadline import Deadline

PLACES: Final = 24
"""So many collectors may divide clusters; and 2, 3, 4, 6, 8 or 12 get equal parts."""

SESSION_MS: Final = 6_000
"""Kafka's minimum (group.min.session.timeout.ms)."""

_HEARTBEAT_MS: Final = 1_500
_POLL_MS: Final = 1_000  # a join that ends between two polls starts again
_JOIN_AGAIN_S: Final = 15.0
_AGAIN_S: Final = 5.0

T = TypeVar("T")

log = structlog.get_logger("collector")


def require_one_bus(configs: Iterable[Config]) -> None:
    """Refuse clusters whose collectors have no bus in common, on which they could meet.

    Raises:
        ConfigError: says which buses there are.
    """
    buses = {config.bus.bootstrap: config.cluster.name for config in configs}
    if len(buses) > 1 or "" in buses:
        places = ", ".join(f"{where or 'none'} for {name}" for where, name in buses.items())
        raise ConfigError(
            f"fleet.collector_group: collectors divide clusters that share a bus: set "
            f"bus.bootstrap, which is {places}"
        )


def places_of(names: Collection[str]) -> dict[str, int]:
    """The place of each cluster. Few change theirs when a cluster comes or goes."""
    mixed = sorted(names, key=lambda name: (crc32(name.encode()), name))
    return {name: at * PLACES // len(mixed) for at, name in enumerate(mixed)}


class Division:
    """The part of this collector, which a thread keeps a member of the group."""

    def __init__(self, config: Config) -> None:
        """Join; the bus may be away."""
        self._config, self._group = config, config.fleet.collector_group
        self._places: frozenset[int] | None = None  # None before the first part
        self._why_not = "this collector waits for its part of the clusters"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="division", daemon=True)
        self._thread.start()

    def part_of(self, clusters: Mapping[str, T]) -> dict[str, T]:
        """Those of the clusters that this collector polls; none before it knows."""
        places, mine = places_of(clusters), self._places or frozenset[int]()
        return {name: each for name, each in clusters.items() if places[name] in mine}

    def why_unhealthy(self) -> str:
        """Why this collector cannot join the group; empty while it is a member."""
        return self._why_not

    def leave(self) -> None:
        """Begin to leave the group, so that others need not wait for the end of the session."""
        self._stop.set()

    def wait(self, deadline: Deadline) -> None:
        """Wait until it has left, or time is over."""
        self._thread.join(deadline.left_s)

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                self._create_topic()
                self._stay()
            except BusError as error:
                self._cannot(str(error))
            self._stop.wait(_AGAIN_S)

    def _create_topic(self) -> None:
        spec = {
            "num_partitions": PLACES,
            "replication_factor": self._config.bus.replication_factor,
        }
        bus_topics.create_missing(self._config, {self._group: spec})

    def _stay(self) -> None:
        """Be a member until this program stops, or Kafka has no part for it any more."""
        try:
            consumer = self._member()
            try:
                alone = Deadline.after_s(_JOIN_AGAIN_S)
                while not self._stop.is_set() and not alone.is_over:
                    consumer.poll(timeout_ms=_POLL_MS)
                    if consumer.assignment():
                        alone = Deadline.after_s(_JOIN_AGAIN_S)
            finally:
                consumer.close(autocommit=False)
        except GroupAuthorizationFailedError:
            raise BusError(
                f"READ on group {self._group} is not granted, by which collectors divide clusters "
                "(fleet.collector_group)"
            ) from None
        except (KafkaError, OSError, ValueError) as error:
            raise failed(self._config, error) from None
        if not self._stop.is_set():
            # kafka-python 3.0.12 forgets a join that a change of metadata made necessary and that
            # ended between two polls: the member has no part, and sends no heartbeat.
            self._cannot(f"group {self._group} has no part for this collector; it joins again")

    def _member(self) -> KafkaConsumer:
        consumer = KafkaConsumer(
            **{
                "group_id": self._group,
                "client_id": f"kafka-twin-collector-{socket.gethostname()}-{os.getpid()}",
                "enable_auto_commit": False,
                "auto_offset_reset": "latest",
                "partition_assignment_strategy": [RangePartitionAssignor],
                "session_timeout_ms": SESSION_MS,
                "heartbeat_interval_ms": _HEARTBEAT_MS,
                "metrics_enabled": False,
                **connection.settings(self._config),
            },
        )
        consumer.subscribe([self._group], listener=_Listener(consumer, self._given))
        return consumer

    def _given(self, places: frozenset[int]) -> None:
        if places != self._places:
            log.info("clusters are divided", group=self._group, places=len(places), of=PLACES)
        self._places, self._why_not = places, ""

    def _cannot(self, why: str) -> None:
        """Log each cause once; the part stays, since others may be as far from the bus."""
        if why != self._why_not:
            log.error("clusters cannot be divided", why=why, again_in_s=_AGAIN_S)
        self._why_not = why


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Hears what part the group has for this member."""

    def __init__(self, consumer: KafkaConsumer, given: Callable[[frozenset[int]], None]) -> None:
        self._consumer, self._given = consumer, given

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Keep them: another part comes when all have joined again."""

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._consumer.pause(*assigned)  # they are empty, and stay so
        self._given(frozenset(each.partition for each in assigned))
