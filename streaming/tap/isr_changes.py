"""Changes of ISRs, from the active controller's request log and from the leaders' server logs.

A leader that wants to shrink an ISR logs when each replica that it wants out was last caught up; no
other source has that. It asks the controller then, and logs the new ISR once the controller has
agreed. The controller's request log has every change that a leader asks for, but only the new ISR:
the difference is known if the ISR of the partition epoch before the change is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from streaming.tap.lines import LeaderShrinkLine, LeaderUpdateLine
from streaming.tap.request_log import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    CompletedAlterPartition,
)
from twin.table import UNKNOWN

_MAX_PARTITIONS: Final = 1_000_000
"""Partitions whose ISR is remembered; five times as many as Kafka supports in a cluster."""


class IsrChange(NamedTuple):
    """A replica that was removed from an ISR or added to it: a row of table ``isr_changes``."""

    topic: str  # id as logged, or name
    partition: int
    leader: int
    leader_epoch: int
    broker: int
    left: bool
    at_ms: int
    caught_up_at_ms: int
    log_end_offset: int
    leader_end_offset: int


class IsrTracker:
    """Remembers the ISR and partition epoch of every partition whose ISR has changed."""

    def __init__(self) -> None:
        self._isrs: dict[tuple[str, int], tuple[int, frozenset[int]]] = {}

    def reset(self) -> None:
        """Forget all ISRs: lines were skipped, and there may have been changes in them."""
        self._isrs.clear()

    def apply(self, at_ms: int, line: CompletedAlterPartition) -> Iterator[IsrChange]:
        """The replicas that an AlterPartition request removed from ISRs and added to them."""
        request, response = line.request, line.response
        if not isinstance(request, AlterPartitionRequest) or not isinstance(
            response, AlterPartitionResponse
        ):
            return
        requested = {
            (topic.topic_id, partition.partition_index): partition
            for topic in request.topics
            for partition in topic.partitions
        }
        received_at_ms = at_ms - round(line.total_time_ms)
        for topic in response.topics:
            for result in topic.partitions:
                key = topic.topic_id, result.partition_index
                change = requested.get(key)
                if result.error_code or change is None:
                    continue
                epoch, prev_isr = self._isrs.get(key, (UNKNOWN, frozenset()))
                isr = frozenset(result.isr)
                self._remember(key, result.partition_epoch, isr)
                if epoch != change.partition_epoch or epoch == UNKNOWN:
                    continue
                for broker in sorted(prev_isr ^ isr):
                    yield IsrChange(
                        *key, request.broker_id, change.leader_epoch, broker, broker in prev_isr,
                        received_at_ms, UNKNOWN, UNKNOWN, UNKNOWN,
                    )  # fmt: skip

    def _remember(self, key: tuple[str, int], epoch: int, isr: frozenset[int]) -> None:
        if len(self._isrs) < _MAX_PARTITIONS or key in self._isrs:
            self._isrs[key] = epoch, isr


class LeaderShrinks:
    """Replicas that leaders want out of ISRs, until the controller has agreed.

    A leader that was frozen for so long that the controller fenced it finds its followers late when
    it goes on, and logs that it shrinks ISRs of partitions that others lead by then: in vain.
    """

    def __init__(self) -> None:
        self._proposed: dict[tuple[str, int], list[IsrChange]] = {}

    def reset(self) -> None:
        """Forget all: lines were skipped, and an answer of the controller may be among them."""
        self._proposed.clear()

    def propose(self, at_ms: int, line: LeaderShrinkLine) -> None:
        """Note which replicas the leader of a partition wants out; it proposes one ISR at a time.

        Source: Partition.maybeShrinkIsr, Kafka 4.3.
        """
        self._proposed[line.topic, line.partition] = [
            IsrChange(
                line.topic, line.partition, line.leader, UNKNOWN, replica.broker, True, at_ms,
                replica.caught_up_at_ms, replica.log_end_offset, line.leader_end_offset,
            )
            for replica in line.removed
        ]  # fmt: skip

    def commit(self, line: LeaderUpdateLine) -> Iterator[IsrChange]:
        """The replicas that are out now, as of when the leader proposed it.

        Source: Partition.handleAlterPartitionUpdate, Kafka 4.3.
        """
        for change in self._proposed.pop((line.topic, line.partition), ()):
            if change.broker not in line.isr:
                yield change
