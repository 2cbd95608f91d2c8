"""An observer that asks ``brokers.PlainCluster`` every few seconds, in plain Python.

The observer keeps the last answer of each replica, record by record, and says what follows from it.
An answer of a replica is as old as that: a log that nobody has read since may have grown.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from tests.model.brokers import (
    BROKERS,
    NOBODY,
    Log,
    PlainCluster,
    PlainPartition,
    common,
    elected,
    elr_after,
)

SILENT_MS = 10_000


@dataclass
class Leadership:
    """The newest leader that answered as leader, and its log by its last answer."""

    broker: int
    epoch: int
    log: Log


@dataclass
class Memory:
    """The memory of one partition."""

    answers: dict[int, Log] = field(default_factory=dict)
    answered_at_ms: dict[int, int] = field(default_factory=dict)
    answered_before: dict[int, list[Log]] = field(default_factory=dict)
    led: Leadership | None = None
    leader: int = NOBODY  # by the listing before
    safe: set[int] = field(default_factory=set)  # in the ISR or the ELR by that listing
    is_unclean: bool = False  # a leader since ``led`` was not among these
    in_doubt: set[int] = field(default_factory=set)  # answered, perhaps before they truncated
    stood: set[int] = field(default_factory=set)  # did not show that they had truncated
    losses: list[dict[str, Any]] = field(default_factory=list)
    hit_committed: dict[int, bool] = field(default_factory=dict)  # by the time of the loss
    doubts_at_ms: set[int] = field(default_factory=set)  # such a replica led
    committed: int | None = None
    committed_read_at_ms: int = 0
    committed_since_ms: int | None = None  # stands still since then; None: it has just changed


@dataclass(frozen=True)
class EpochEnd:
    """A new leader's answer about the leader epoch before."""

    prev_epoch: int
    found_epoch: int
    end_offset: int


class Observer:
    """Asks the cluster, and says of each partition what that means."""

    def __init__(self, cluster: PlainCluster) -> None:
        self.cluster = cluster
        self.memory = [Memory() for _ in cluster.partitions]
        self.broker_answered_at_ms: dict[int, int] = {}
        self.answering: set[int] = set()
        self.now_ms = 0

    def ask(self, now_ms: int, answering: Collection[int], *, groups: bool) -> dict[int, EpochEnd]:
        """One cycle, in which those brokers answer; the answers about epochs, by partition."""
        self.now_ms, self.answering = now_ms, set(answering)
        self.broker_answered_at_ms |= dict.fromkeys(answering, now_ms)
        epoch_ends = {}
        for partition, memory in zip(self.cluster.partitions, self.memory, strict=True):
            if groups:
                self._read_group(partition, memory)
            if end := self._ask(partition, memory):
                epoch_ends[partition.number] = end
        return epoch_ends

    def _read_group(self, partition: PlainPartition, memory: Memory) -> None:
        """Before the log ends of the same cycle, so an offset is never of later records.

        What the leader said before the last reading is too old to compare with.
        """
        leader, read_at_ms = partition.leader, memory.committed_read_at_ms
        has_moved = memory.committed not in (None, partition.committed)
        answered_at_ms = memory.answered_at_ms.get(leader, 0)
        goes_on = leader in self.answering or answered_at_ms > read_at_ms
        if has_moved:
            memory.committed_since_ms = None
        elif memory.committed_since_ms is None or leader == NOBODY or not goes_on:
            memory.committed_since_ms = self.now_ms
        memory.committed, memory.committed_read_at_ms = partition.committed, self.now_ms - 1

    def _ask(self, p: PlainPartition, memory: Memory) -> EpochEnd | None:
        was_in_doubt = set(memory.in_doubt)
        for broker in p.replicas:
            if broker in self.answering:
                if broker in memory.answers:
                    memory.answered_before.setdefault(broker, []).append(memory.answers[broker])
                memory.answers[broker] = list(p.logs[broker])
                memory.answered_at_ms[broker] = self.now_ms
                if p.leader in self.answering:
                    memory.in_doubt.discard(broker)
                else:
                    memory.in_doubt.add(broker)
        if p.leader not in (NOBODY, memory.leader) and memory.led:
            memory.is_unclean |= p.leader not in memory.safe
        memory.leader, memory.safe = p.leader, {*p.isr, *p.elr}
        if p.leader not in self.answering:
            return None
        led, log = memory.led, memory.answers[p.leader]
        memory.led = Leadership(p.leader, p.epoch, log)
        if led is None or led.epoch == p.epoch:
            return None
        if p.leader in was_in_doubt:
            memory.doubts_at_ms.add(self.now_ms)
        self._judge(p, memory, led)
        memory.is_unclean = False
        end_offset = _end_of(led.epoch, log)
        found_epoch = log[end_offset - 1] if end_offset else led.epoch
        return EpochEnd(led.epoch, found_epoch, end_offset)

    def _judge(self, p: PlainPartition, memory: Memory, led: Leadership) -> None:
        """Which records of the last leader's log the new one does not have."""
        first = common(led.log, memory.answers[p.leader])
        if first == len(led.log):
            return
        had_it = any(
            common(log, led.log) > first for log in memory.answered_before.get(p.leader, ())
        )
        is_shorter = p.leader == led.broker or had_it
        cause = "shorter_log" if is_shorter else "acks_1"
        # The truth, which the observer cannot see, for the assertions of the test.
        memory.hit_committed[self.now_ms] = p.committed_up_to.get(led.epoch, 0) > first
        memory.losses.append(
            {
                "at_ms": self.now_ms,
                "cause": "unclean" if memory.is_unclean else cause,
                "old_leader": led.broker,
                "new_leader": p.leader,
                "start_offset": first,
                "start_is_exact": True,
                "end_offset": len(led.log),
                "end_is_exact": False,
            }
        )

    # ------------------------------------------------------------ what follows

    def is_settled(self, p: PlainPartition) -> bool:
        """The present leader has answered in its epoch."""
        led = self.memory[p.number].led
        return led is not None and (led.broker, led.epoch) == (p.leader, p.epoch)

    def truncations(self, p: PlainPartition) -> list[dict[str, int]]:
        """Replicas that do not answer, and have what their leader has not."""
        memory = self.memory[p.number]
        found = []
        for broker in p.replicas:
            log = memory.answers[broker]
            to_offset = self._common(p, broker)
            if broker not in {p.leader, *self.answering} and to_offset < len(log):
                records = len(log) - to_offset
                found.append({"broker": broker, "to_offset": to_offset, "records": records})
        return sorted(found, key=lambda one: one["broker"])

    def note_stood(self, p: PlainPartition, listed: Collection[int]) -> None:
        """Offsets do not show of all who answer that they have truncated; in the ISR they have."""
        memory = self.memory[p.number]
        memory.stood |= {b for b in listed if b in self.answering}
        memory.stood -= set(p.isr)

    def unclean_successors(self, p: PlainPartition) -> dict[int, int]:
        """Records of the leader's last answer that each replica outside ISR and ELR lacks."""
        end = len(self.memory[p.number].answers[p.leader])
        outside = [b for b in p.replicas if b not in {p.leader, *p.isr, *p.elr}]
        return {broker: max(end - self._common(p, broker), 0) for broker in outside}

    def _common(self, p: PlainPartition, broker: int) -> int:
        """The offset up to which that replica, by its last answer, has what the leader has."""
        log, leading = self.memory[p.number].answers[broker], p.logs[p.leader]
        return common(log, leading)

    def next_leader(self, p: PlainPartition, fenced: Collection[int] = ()) -> tuple[int, str]:
        """Who leads once the leader's broker is fenced, and those brokers too."""
        gone = {p.leader, *fenced}
        isr = [b for b in p.isr if b not in gone]
        elr = elr_after(p, isr, enabled=self.cluster.elr_enabled)
        return elected(p, isr, elr, self.cluster.live - gone)

    def silent(self) -> list[int]:
        """Brokers that have not answered for a while."""
        return [
            b
            for b in BROKERS
            if b not in self.answering and self.now_ms - self.broker_answered_at_ms[b] > SILENT_MS
        ]

    def silent_successor(self, p: PlainPartition) -> dict[str, Any] | None:
        """The next leader if it is silent, and who leads once it is fenced too."""
        broker, _ = self.next_leader(p)
        if broker not in self.silent():
            return None
        then, outcome = self.next_leader(p, self.silent())
        since_ms = self.broker_answered_at_ms[broker]
        return {"broker": broker, "since_ms": since_ms, "then": then, "outcome": outcome}

    def is_group_ahead(self, p: PlainPartition) -> bool:
        """The group is beyond the log end, as its leader says since the offset stands still.

        An offset that has just changed may be of records that were appended meanwhile.
        """
        memory = self.memory[p.number]
        since_ms = memory.committed_since_ms
        if p.leader == NOBODY or memory.committed is None or since_ms is None:
            return False
        if memory.answered_at_ms[p.leader] <= since_ms:
            return False
        return memory.committed > len(memory.answers[p.leader])


def _end_of(epoch: int, log: Log) -> int:
    """Where the records of that epoch, and of those before, end (OffsetForLeaderEpoch)."""
    return next((offset for offset, its in enumerate(log) if its > epoch), len(log))
