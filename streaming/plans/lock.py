"""Allows one watch at a time in the whole cluster, by membership in a consumer group.

Kafka gives each partition of a topic to one member of a group. The member that has partition 0 of
the events topic holds the lock; it commits no offset. A second watch sees the first one in the
group and ends. If two start at the same moment, one does not get the partition. A watch that is
killed or frozen loses its membership after SESSION_MS.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import GroupAuthorizationFailedError, KafkaError

from streaming.bus import bus_topics, connection
from streaming.bus.connection import BusError, failed
from streaming.plans.plan import NotAllowed, PlanError
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline

SESSION_MS: Final = 10_000
"""Kafka's minimum is 6 s (group.min.session.timeout.ms)."""

_JOIN_WITHIN_MS: Final = 30_000
_JOIN_AGAIN_MS: Final = 5_000
_ROUND_WITHIN_MS: Final = 900_000  # time for some changes, each with its deadline
_RETRY_MS: Final = 200
_POLL_MS: Final = 1_000  # a join that ends between two polls starts again


class LockTaken(PlanError):  # noqa: N818 - said to a person
    """Another watch has the lock."""


class WatchLock:
    """The lock, held until ``close`` unless Kafka gives it to another; a context manager."""

    def __init__(self, config: Config) -> None:
        """Take the lock.

        Raises:
            Taken: another watch has it.
            NotAllowed: the right to join the group is missing.
            BusError: the bus cannot be reached.
        """
        self._config, self._group = config, bus_topics.watch_group(config)
        self._refuse_if_taken()
        self._first = TopicPartition(bus_topics.topics(config).events, 0)
        self._consumer = self._member()
        try:
            self.check()
        except BaseException:
            self.close()
            raise

    def _member(self) -> KafkaConsumer:
        try:
            return KafkaConsumer(
                self._first.topic,
                **{
                    "group_id": self._group,
                    "client_id": self._name(),
                    "enable_auto_commit": False,
                    "auto_offset_reset": "latest",
                    "session_timeout_ms": SESSION_MS,
                    "max_poll_interval_ms": _ROUND_WITHIN_MS,
                    "max_poll_records": 1,
                    "metrics_enabled": False,
                    **connection.settings(self._config),
                },
            )
        except (KafkaError, OSError, ValueError) as error:
            raise failed(self._config, error) from None

    def _name(self) -> str:
        """Whom others see in the group."""
        cluster = self._config.cluster.name
        return f"kafka-twin-plan-{cluster}-{socket.gethostname()}-{os.getpid()}"

    def _refuse_if_taken(self) -> None:
        try:
            with KafkaAdminClient(**connection.settings(self._config)) as admin:
                described = self._described(admin)
        except GroupAuthorizationFailedError:
            raise self._not_allowed() from None
        except (KafkaError, OSError, ValueError) as error:
            raise failed(self._config, error) from None
        if GroupAuthorizationFailedError.__name__ in str(described["error"]):
            raise self._not_allowed()
        members = [f"{m['client_id']} at {m['client_host']}" for m in described["members"]]
        if members:
            raise LockTaken(
                f"another plan order --watch runs: {', '.join(members)}; one that was killed "
                f"counts for {SESSION_MS // 1_000} s more"
            )

    def _described(self, admin: KafkaAdminClient) -> Mapping[str, Any]:
        """The group's description; on a new cluster the coordinator is available after a moment."""
        deadline = Deadline.after_ms(_JOIN_WITHIN_MS)
        while True:
            try:
                described: Mapping[str, Any] = admin.describe_groups([self._group])[self._group]
                return described
            except KafkaError as error:
                if deadline.is_over or not getattr(error, "retriable", False):
                    raise
            time.sleep(_RETRY_MS / 1_000)

    def check(self) -> None:
        """Make sure that the lock is still held.

        Raises:
            Taken: Kafka has given it to another watch.
            NotAllowed: the right to join the group is missing.
            BusError: the bus does not answer, or has not given it to this watch yet.
        """
        deadline, again = Deadline.after_ms(_JOIN_WITHIN_MS), Deadline.after_ms(_JOIN_AGAIN_MS)
        try:
            self._consumer.poll(timeout_ms=0)
            while self._first not in self._consumer.assignment():
                if self._consumer.assignment():
                    raise LockTaken(f"another plan order --watch has joined group {self._group}")
                if deadline.is_over:
                    raise BusError(f"this watch waits to be the first in group {self._group}")
                if again.is_over:
                    # kafka-python 3.0.12 forgets a join that a change of metadata made necessary
                    # and that ended between two polls: the member has no partition, and sends no
                    # heartbeat.
                    self._consumer.close(autocommit=False)
                    self._consumer = self._member()
                    again = Deadline.after_ms(_JOIN_AGAIN_MS)
                self._consumer.poll(timeout_ms=_POLL_MS)
        except GroupAuthorizationFailedError:
            raise self._not_allowed() from None
        except KafkaError as error:
            raise failed(self._config, error) from None

    def _not_allowed(self) -> NotAllowed:
        return NotAllowed(
            f"READ on group {self._group} is not granted, by which one watch knows of another; "
            "`kafka-twin check --acls User:NAME` prints the command that grants it"
        )

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close(autocommit=False)

    def __enter__(self) -> WatchLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
