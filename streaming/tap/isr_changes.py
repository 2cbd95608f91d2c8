"""Changes of ISRs, from the active controller's request log and from the leaders' server logs.

A leader that wants to shrink an ISR logs when each replica that it wants out was last caught up; no
other source has that. Only then it asks the controller (``LeaderShrinks``).

The controller's request log has every change that a leader asks for, but only the new ISR: the
difference is known if the ISR of the partition epoch before the change is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

from streaming.tap.log_lines import FollowerLine, LeaderShrinkLine, LeaderUpdateLine
from streaming.tap.request_log import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    CompletedAlterPartition,
)
from twin.declarations.table import UNKNOWN

_MAX_PARTITIONS: Final = 1_000_000
"""Partitions whose ISR is remembered; five times as many as Kafka supports in a cluster."""


SETTLED_MS: Final = 10_000
"""A broker that goes on follows its new leaders within a second; busy ones take some."""


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
    """Replicas that a leader wants out of ISRs, until it shows whether the controller agreed.

    A leader that was frozen for so long that the controller fenced it finds its followers late when
    it goes on, and logs that it shrinks ISRs of partitions that others lead by then. Then it learns
    of the new leaders, and follows them. If the controller agrees, the leader logs the new ISR, or
    a later one if it has read the new one from the metadata log before it has the answer. A leader
    that has logged none of all that within SETTLED_MS is believed.

    Source: Partition.maybeShrinkIsr and submitAlterPartition, Kafka 4.3.
    """

    def __init__(self) -> None:
        self._proposed: dict[tuple[str, int], tuple[IsrChange, ...]] = {}

    def reset(self) -> None:
        """Forget all: lines were skipped, and what settles them may be among these."""
        self._proposed.clear()

    def propose(self, at_ms: int, line: LeaderShrinkLine) -> None:
        """Note which replicas the leader wants out; it proposes one ISR at a time."""
        self._proposed[line.topic, line.partition] = tuple(
            IsrChange(
                line.topic, line.partition, line.leader, UNKNOWN, replica.broker, True, at_ms,
                replica.caught_up_at_ms, replica.log_end_offset, line.leader_end_offset,
            )
            for replica in line.removed
        )  # fmt: skip

    def agree(self, line: LeaderUpdateLine) -> Iterator[IsrChange]:
        """The replicas that were out; they may be back, if the ISR has changed once more since."""
        yield from self._proposed.pop((line.topic, line.partition), ())

    def follow(self, line: FollowerLine) -> None:
        """Drop what was proposed for partitions that the broker does not lead any more."""
        for key in self._proposed.keys() & line.partitions:
            del self._proposed[key]

    def settled(self, now_ms: float = math.inf) -> Iterator[IsrChange]:
        """The replicas that were proposed SETTLED_MS before that time of the log."""
        for key, changes in list(self._proposed.items()):
            if now_ms - changes[0].at_ms >= SETTLED_MS:
                yield from self._proposed.pop(key)
