"""The calls of Kafka's admin protocol that plans need, one partition at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import BrokerResponseError, ClusterAuthorizationFailedError, KafkaError

from streaming.plans.plan import NotAllowed, Origin, PlanError, PlannedChange
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from streaming.runtime.kafka import clients

_AGAIN_S: Final = 0.05
_REQUEST_MS: Final = 15_000
_PREFERRED: Final = 0


@dataclass(frozen=True, slots=True)
class LivePartition:
    """The present state of a partition in Kafka."""

    topic_id: str
    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    is_reassigning: bool


class ChangeRefused(PlanError):  # noqa: N818 - said of one partition
    """Kafka refused a change of one partition; the message says why."""


class Admin:
    """Reads and changes assignments of the watched cluster; a context manager."""

    def __init__(self, config: Config) -> None:
        """Connect.

        Raises:
            PlanError: the cluster cannot be reached.
        """
        self._cluster, self._bootstrap = config.cluster.name, config.cluster.bootstrap
        arguments = {
            "request_timeout_ms": _REQUEST_MS,
            **clients.arguments(config.cluster.bootstrap, config.cluster.client, "cluster"),
        }
        try:
            self._admin = KafkaAdminClient(**arguments)
        except (KafkaError, OSError, ValueError) as error:
            more_time = f"cluster.client.{clients.BOOTSTRAP_TIMEOUT}"
            why = clients.one_line(error, more_time, self._bootstrap)
            raise PlanError(f"cluster {self._bootstrap}: {why}") from None

    def origin(self) -> Origin:
        """The cluster that this changes, as it says who it is now.

        Raises:
            PlanError: the cluster does not answer.
        """
        with self._errors("DESCRIBE"):
            described = self._admin.describe_cluster()
        return Origin(self._cluster, described.get("cluster_id") or "")

    def read(self, topic: str, partition: int) -> LivePartition | None:
        """The present state of the partition, None if it does not exist.

        Raises:
            PlanError: the cluster does not answer, or a right is missing.
        """
        place = TopicPartition(topic, partition)
        with self._errors("DESCRIBE"):
            [described] = self._admin.describe_topics([topic])
            moving = self._admin.list_partition_reassignments([place])
        partitions: list[Mapping[str, Any]] = described["partitions"]
        if described["error_code"] == clients.TOPIC_NOT_ALLOWED:
            raise NotAllowed(f"{topic}: DESCRIBE on the topic is not granted")
        for each in partitions:
            if each["partition_index"] == partition:
                return LivePartition(
                    topic_id=str(described["topic_id"]),
                    replicas=tuple(each["replica_nodes"]),
                    leader=each["leader_id"],
                    leader_epoch=each["leader_epoch"],
                    is_reassigning=place in moving,
                )
        return None

    def reorder(self, change: PlannedChange, within_s: float) -> None:
        """Set the planned order of the partition, and wait until Kafka has it.

        Raises:
            Refused: Kafka did not do it, or not in time.
            PlanError: the cluster does not answer, or the right is missing.
        """
        place = TopicPartition(change.topic, change.partition)
        with self._errors("ALTER"):
            answers = self._admin.alter_partition_reassignments({place: list(change.planned)})
        if (error := answers.get(place)) is not None:
            raise ChangeRefused(f"{change}: {error.__name__}")
        _until(
            lambda: (
                (live := self.read(change.topic, change.partition)) is not None
                and live.replicas == change.planned
                and not live.is_reassigning
            ),
            within_s,
            f"{change}: Kafka does not have the new order after {within_s:.0f} s",
        )

    def elect_preferred(self, change: PlannedChange, within_s: float) -> None:
        """Hold a preferred election, and wait until the planned leader leads.

        Raises:
            Refused: Kafka did not elect it, or not in time.
            PlanError: the cluster does not answer, or the right is missing.
        """
        with self._errors("ALTER"):
            try:
                self._admin.elect_leaders(_PREFERRED, {change.topic: [change.partition]})
            except ClusterAuthorizationFailedError:
                raise
            except BrokerResponseError as error:
                raise ChangeRefused(f"{change}: {type(error).__name__}") from None
        _until(
            lambda: (
                (live := self.read(change.topic, change.partition)) is not None
                and live.leader == change.elect
            ),
            within_s,
            f"{change}: broker {change.elect} was not elected",
        )

    @contextmanager
    def _errors(self, operation: str) -> Iterator[None]:
        try:
            yield
        except PlanError:
            raise
        except ClusterAuthorizationFailedError:
            raise NotAllowed(
                f"{operation} on the cluster is not granted, so nothing more is changed; "
                "`kafka-twin check --acls User:NAME` prints the command that grants it"
            ) from None
        except (KafkaError, OSError, RuntimeError) as error:
            why = clients.one_line(error, bootstrap=self._bootstrap)
            raise PlanError(f"cluster {self._bootstrap}: {why}") from None

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()


def _until(condition: Callable[[], bool], within_s: float, otherwise: str) -> None:
    deadline = Deadline.after_s(within_s)
    while not condition():
        if deadline.is_over:
            raise ChangeRefused(otherwise)
        time.sleep(_AGAIN_S)
