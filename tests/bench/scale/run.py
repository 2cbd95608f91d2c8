"""A fleet that sends, a program that answers, and what it takes meanwhile."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from streaming.bus.reader import Reader
from streaming.runtime.deadline import Deadline
from tests.bench import figure
from tests.bench.scale import taken
from tests.bench.scale.fleet import Sending, Size
from tests.bench.scale.programs import Program
from tests.bench.scale.written import Written

KILL_AFTER_S: Final = 0.3
"""Of the time that a cycle is on the bus and not answered: its batch runs, or waits for one."""

_SAMPLE_EVERY_S: Final = 5.0
_START_S: Final = 180.0
_MOST_INTERVALS: Final = 10


class _Used(NamedTuple):
    """CPU time, bytes and batches since the start, at a moment."""

    cpu_s: dict[str, float]
    bytes: dict[str, int]
    batches: int


class Run:
    """Begins with the first turn; every cycle is sent when it is due."""

    def __init__(
        self, size: Size, sending: Sending, reader: Reader, program: Program, about: dict[str, Any]
    ) -> None:
        """Nothing is sent yet; ``about`` stands beside each figure."""
        self.sending = sending
        self._size, self._about = size, about
        self._reader, self._program = reader, program
        self._written = Written(size.shards)
        self._files = taken.Files(program.files)
        self._memory: dict[str, int] = {}
        self._sample = Deadline.after_s(_SAMPLE_EVERY_S)

    def until_read(self, cycles: int) -> None:
        """Go on until that many cycles of each cluster are answered."""
        wanted = {(name, cycles) for name in self.sending.names}
        self._until(lambda: wanted <= self._written.read_s.keys())

    def measure(self, cycles: int) -> None:
        """Go on for that many intervals, and print what each cycle of the fleet has taken."""
        began_s, before = time.monotonic(), self._used()
        self._memory = {}
        self._until(lambda: time.monotonic() - began_s >= cycles * self._size.interval_s)
        after, ended_s = self._used(), time.monotonic()
        sent = [at for at, sent_s in self.sending.sent_s.items() if began_s <= sent_s < ended_s]
        self._until(lambda: self._written.read_s.keys() >= {*sent})
        self._latencies(sent, "running")
        spent = {part: (s - before.cpu_s.get(part, 0)) / cycles for part, s in after.cpu_s.items()}
        for part, cpu_s in [*sorted(spent.items()), ("all", sum(spent.values()))]:
            self._figure("cpu_seconds_a_cycle", cpu_s, "s", part=part)
        for part, size in [*sorted(self._memory.items()), ("all", sum(self._memory.values()))]:
            self._figure("memory_bytes", size, "B", part=part)
        for what, size in after.bytes.items():
            self._figure("bytes_a_cycle", (size - before.bytes[what]) / cycles, "B", what=what)
        if batches := after.batches - before.batches:
            self._figure("batches_a_cycle", batches / cycles, "batches")

    def kill(self, victim: str, kill: Callable[[], None], start: Callable[[], None] | None) -> None:
        """Kill while a cycle waits for its answer, start what nobody else starts, and print how
        soon each cluster is fresh again."""
        self._until(lambda: any(s > KILL_AFTER_S for s in self._waiting_s().values()))
        kill()
        killed_s = time.monotonic()
        if start is not None:
            start()

        def fresh() -> list[float]:
            """When the first cycle sent since then was read, of each cluster that has one."""
            first: dict[str, float] = {}
            for (name, cycle), read_s in self._written.read_s.items():
                if self.sending.sent_s[name, cycle] > killed_s:
                    first[name] = min(read_s, first.get(name, read_s))
            return sorted(first.values())

        self._until(lambda: len(fresh()) == self._size.clusters)
        times = fresh()
        self._figure("first_fresh_after_seconds", times[0] - killed_s, "s", killed=victim)
        self._figure("all_fresh_after_seconds", times[-1] - killed_s, "s", killed=victim)
        self._until(lambda: not self._late())
        self._figure("caught_up_after_seconds", time.monotonic() - killed_s, "s", killed=victim)
        ended_s = time.monotonic()
        waited = {at for at, s in self.sending.sent_s.items() if killed_s < s < ended_s}
        waited |= {at for at, s in self._written.read_s.items() if killed_s < s < ended_s}
        self._latencies(waited & self._written.read_s.keys(), victim)

    def _late(self) -> list[tuple[str, int]]:
        """Cycles that have waited for longer than an interval."""
        return [at for at, s in self._waiting_s().items() if s > self._size.interval_s]

    def _waiting_s(self) -> dict[tuple[str, int], float]:
        """How long each cycle waits that is sent and not read."""
        now_s, read_s = time.monotonic(), self._written.read_s
        return {at: now_s - s for at, s in self.sending.sent_s.items() if at not in read_s}

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = Deadline.after_s(_START_S + _MOST_INTERVALS * self._size.interval_s)
        while not condition():
            self._turn()
            if deadline.is_over:
                log = self._program.log.read_text()[-3_000:]
                raise SystemExit(f"without an answer: {sorted(self._waiting_s())}\n{log}")

    def _turn(self) -> None:
        self.sending.turn()
        self._written.take(self._reader.poll(20, look=False))
        if self._sample.is_over:
            self._sample = Deadline.after_s(_SAMPLE_EVERY_S)
            self._files.look()
            now = taken.memory_bytes(self._program.roots)
            if sum(now.values()) > sum(self._memory.values()):
                self._memory = now

    def _used(self) -> _Used:
        checkpoint, batches = self._files.look()
        sizes = {"observations": self.sending.bytes, "snapshots": self._written.bytes,
                 "checkpoint": checkpoint}  # fmt: skip
        return _Used(taken.cpu_s(self._program.roots), sizes, batches)

    def _latencies(self, cycles: Iterable[tuple[str, int]], when: str) -> None:
        """From a cycle sent to its last snapshot read."""
        seconds = sorted(self._written.read_s[at] - self.sending.sent_s[at] for at in cycles)
        _, *_, p99 = statistics.quantiles(seconds, n=100, method="inclusive")
        self._figure("cycle_seconds", statistics.median(seconds), "s", when=when, p99=round(p99, 2),
                     most=round(seconds[-1], 2), cycles=len(seconds))  # fmt: skip

    def _figure(self, name: str, value: float, unit: str, **more: Any) -> None:
        figure(f"fleet_scale_{name}", value, unit, **more, **self._about)
