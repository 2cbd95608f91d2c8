"""Changes of ISRs, from the active controller's request log and from the leaders' own logs.

A leader that shrinks an ISR logs when it saw each replica caught up last: nobody else states that.
The controller's log has every change a leader asks for, but only the new ISR: who left or joined
follows where the state before is known, which its partition epoch tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from streaming.tap.lines import Altered, AlterRequest, AlterResponse, Shrunk
from twin.tables import UNKNOWN

_MOST_PARTITIONS: Final = 1_000_000


class Move(NamedTuple):
    """One replica that left or joined an ISR, as the table ``isr_changes`` has it."""

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


class Isrs:
    """Remembers the ISR of each partition that changed, by its partition epoch."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[int, frozenset[int]]] = {}

    def forget(self) -> None:
        """Lines are missing: changes may be."""
        self._known.clear()

    def altered(self, at_ms: int, altered: Altered) -> Iterator[Move]:
        """Who left and who joined by a change that the controller made."""
        request, response = altered.request, altered.response
        if not isinstance(request, AlterRequest) or not isinstance(response, AlterResponse):
            return
        wanted = {
            (topic.topic_id, partition.partition_index): partition
            for topic in request.topics
            for partition in topic.partitions
        }
        asked_at_ms = at_ms - round(altered.total_time_ms)
        for topic in response.topics:
            for agreed in topic.partitions:
                key = topic.topic_id, agreed.partition_index
                want = wanted.get(key)
                if agreed.error_code or want is None:
                    continue
                epoch, before = self._known.get(key, (UNKNOWN, frozenset()))
                after = frozenset(agreed.isr)
                if len(self._known) < _MOST_PARTITIONS or key in self._known:
                    self._known[key] = agreed.partition_epoch, after
                if epoch != want.partition_epoch or epoch == UNKNOWN:
                    continue
                for broker in sorted(before ^ after):
                    yield Move(
                        *key, request.broker_id, want.leader_epoch, broker, broker in before,
                        asked_at_ms, UNKNOWN, UNKNOWN, UNKNOWN,
                    )  # fmt: skip


def shrunk(at_ms: int, told: Shrunk) -> Iterator[Move]:
    """Who left by a leader's own word."""
    for broker, end, caught_up_at_ms in told.left:
        yield Move(
            told.topic, told.partition, told.leader, UNKNOWN, broker, True, at_ms,
            caught_up_at_ms, end, told.leader_end_offset,
        )  # fmt: skip
