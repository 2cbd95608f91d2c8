"""Reads one bus for all clusters that are on it: one thread, one connection.

What is of one cluster stays with it. Its topics are made ready in a thread of their own, and put to
the others' when they are; what breaks while its messages are taken is tried again alone. Only what
is of the connection is of all.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import structlog

from streaming.bus.connection import BusError
from streaming.bus.reader import Reader
from streaming.bus.record import Record
from streaming.exporter.intake.cluster_reading import ClusterReading
from streaming.exporter.intake.late_looks import LateLooks
from streaming.exporter.intake.preparing import prepare
from streaming.exporter.view_source import wall_clock_ms
from streaming.runtime.errors import UserError

POLL_MS: Final = 1_000
"""The longest time without new records; a poll ends when there are some."""

LOOK_EVERY_S: Final = 2.0
RETRY_PAUSE_S: Final = 2.0
BROKEN_PAUSE_S: Final = 30.0
"""Before a cluster whose reading broke is begun anew: what broke it may be read again."""

PREPARED_AT_ONCE: Final = 4
LOG_AGAIN_AFTER_S: Final = 60.0
"""How often the same cause is logged while it lasts."""

log = structlog.get_logger("exporter")


class BusReading:
    """The thread that reads a bus. Clusters come and go by ``put`` and ``drop`` while it runs."""

    def __init__(
        self,
        when_broken: Callable[[str], None] | None = None,
        set_apart: Callable[[Sequence[ClusterReading]], None] = lambda _: None,
    ) -> None:
        """
        Args:
            when_broken: takes the error by which reading ended; None: what breaks is begun anew.
            set_apart: takes clusters that had better be read by others, since one of them, and
                nobody knows which, keeps all from being read.
        """
        self._when_broken, self._set_apart = when_broken, set_apart
        self._wanted: list[ClusterReading] = []
        self._is_started, self._changing = False, threading.Lock()
        self._by_topic: dict[str, ClusterReading] = {}
        self._ready: queue.SimpleQueue[ClusterReading] = queue.SimpleQueue()
        self._stop, self._slots = threading.Event(), threading.Semaphore(PREPARED_AT_ONCE)
        self._looks, self._look_at_s = LateLooks(), time.monotonic() + LOOK_EVERY_S
        self._logged: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, name="reading", daemon=True)

    def start(self) -> None:
        """Start reading."""
        with self._changing:
            self._is_started = True
        for reading in self._wanted:
            self._make_ready(reading, pause_s=0)
        self._thread.start()

    def stop(self) -> None:
        """Stop within a few polls, without waiting for a connection in progress."""
        self._stop.set()
        self._looks.end()
        if self._thread.ident is not None:
            self._thread.join(timeout=2)

    @property
    def wanted(self) -> Sequence[ClusterReading]:
        """The clusters that it is to read."""
        return self._wanted

    def put(self, reading: ClusterReading) -> None:
        """Read this cluster as well, as soon as its topics are ready."""
        with self._changing:
            self._wanted = [*self._wanted, reading]
        if self._is_started:
            self._make_ready(reading, pause_s=0)

    def drop(self, reading: ClusterReading) -> None:
        """Read this cluster no more."""
        with self._changing:
            self._wanted = [each for each in self._wanted if each is not reading]

    # ------------------------------------------------------------ threads that make ready

    def _make_ready(self, reading: ClusterReading, pause_s: float) -> None:
        threading.Thread(
            target=self._prepare, args=(reading, pause_s), name="preparing", daemon=True
        ).start()

    def _prepare(self, reading: ClusterReading, pause_s: float) -> None:
        while not self._stop.wait(pause_s) and reading in self._wanted:
            reading.turn()
            if not self._slots.acquire(timeout=RETRY_PAUSE_S):  # others are made ready
                pause_s = 0
                continue
            pause_s = RETRY_PAUSE_S
            try:
                if prepare(reading):
                    self._ready.put(reading)
                    return
            except UserError as error:
                self._note(reading, error)
            except Exception as error:
                pause_s = BROKEN_PAUSE_S
                self._note_broken([reading], error)
            finally:
                self._slots.release()

    # ------------------------------------------------------------ the thread that reads

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._read()
            except UserError as error:
                self._fail(error)
            except Exception as error:
                self._note_broken([*self._by_topic.values()], error)
                self._fail(None)

    def _read(self) -> None:
        reader: Reader | None = None
        try:
            while not self._stop.is_set():
                reader = self._take_in(reader)
                for reading in self._readings:
                    reading.turn()
                if reader is None or not self._by_topic:
                    continue
                polled = reader.poll(POLL_MS, look=False)
                self._leave_out(reader)
                self._hand_out(polled, reader)
                if time.monotonic() >= self._look_at_s:
                    self._look_at_s = time.monotonic() + LOOK_EVERY_S
                    self._look(reader)
        finally:
            if reader is not None:
                reader.close()

    @property
    def _readings(self) -> list[ClusterReading]:
        """Those that are read now."""
        return [*dict.fromkeys(self._by_topic.values())]

    def _take_in(self, reader: Reader | None) -> Reader | None:
        """Begin to read what is ready, from its own beginning; the others go on."""
        for reading in self._arrived():
            try:
                reader = reader or Reader(reading.config)
                reader.add([*reading.starts], reading.starts)
            except BusError as error:
                self._note(reading, error)
                self._make_ready(reading, RETRY_PAUSE_S)
                continue
            reading.begin(reader)
            self._by_topic |= dict.fromkeys(reading.starts, reading)
            log.info("reading", topics=", ".join(reading.starts))
        return reader

    def _arrived(self) -> Iterator[ClusterReading]:
        """What is ready; waits for a while for the first, as long as nothing is read."""
        with suppress(queue.Empty):
            if not self._by_topic:
                yield self._ready.get(timeout=POLL_MS / 1_000)
            while True:
                yield self._ready.get_nowait()

    def _leave_out(self, reader: Reader | None) -> None:
        for reading in self._readings:
            if reading not in self._wanted:
                self._let_go(reading, reader)

    def _let_go(self, reading: ClusterReading, reader: Reader | None) -> None:
        mine = [topic for topic, each in self._by_topic.items() if each is reading]
        for topic in mine:
            del self._by_topic[topic]
        if reader is not None:
            reader.drop(mine)

    def _hand_out(self, polled: Sequence[Record], reader: Reader) -> None:
        """Give each cluster what is of it; who has little does not wait for who has much."""
        of_each: defaultdict[ClusterReading, list[Record]] = defaultdict(list)
        for record in polled:
            if (reading := self._by_topic.get(record.topic)) is not None:
                of_each[reading].append(record)
        for reading in self._readings:
            if not reading.is_ready:
                of_each[reading]  # an empty topic is read at once
        for reading, records in sorted(of_each.items(), key=lambda each: _bytes(each[1])):
            try:
                reading.take(records, reader)
            except BusError:
                raise
            except Exception as error:
                self._note_broken([reading], error)
                self._let_go(reading, reader)
                self._make_ready(reading, BROKEN_PAUSE_S)

    def _look(self, reader: Reader) -> None:
        """See whose topics have vanished, and have a look at what waits."""
        missing = reader.missing()
        now_ms = wall_clock_ms()
        for reading in self._readings:
            if gone := [topic for topic in reading.starts if topic in missing]:
                self._note(reading, UserError(f"the bus topic {', '.join(gone)} has vanished"))
                self._let_go(reading, reader)
                self._make_ready(reading, RETRY_PAUSE_S)
            elif reading.view.is_late(now_ms):
                self._looks.ask(reading)
            else:
                reading.note_on_time()

    # ------------------------------------------------------------ what fails

    def _fail(self, error: UserError | None) -> None:
        """Begin anew with all that were read."""
        readings, self._by_topic = self._readings, {}
        if self._stop.is_set():
            return
        for reading in readings:
            if error is not None:
                self._note(reading, error)
        is_away = isinstance(error, BusError) and error.unreachable
        if len(readings) > 1 and not is_away:
            apart = readings[1:]
            for reading in apart:
                self.drop(reading)
            self._set_apart(apart)
            readings = readings[:1]
        for reading in readings:
            self._make_ready(reading, RETRY_PAUSE_S)

    def _note(self, reading: ClusterReading, error: UserError) -> None:
        """Log a cause once while it lasts, not at each try, and tell the cluster."""
        is_away = isinstance(error, BusError) and error.unreachable
        if is_away:
            reading.note_silence()
        if self._when_broken is None:
            reading.why_broken = "" if is_away else str(error)
        now_s = time.monotonic()
        if now_s - self._logged.get(str(error), -LOG_AGAIN_AFTER_S) >= LOG_AGAIN_AFTER_S:
            log.error("the bus cannot be read", error=str(error))
            self._logged = {why: at_s for why, at_s in self._logged.items()
                            if now_s - at_s < LOG_AGAIN_AFTER_S} | {str(error): now_s}  # fmt: skip

    def _note_broken(self, readings: Sequence[ClusterReading], error: Exception) -> None:
        """Log a bug. Of one cluster: to go on would serve an ever older view; a supervisor can
        restart the process. Of several: the others go on.
        """
        names = ", ".join(dict.fromkeys(each.config.cluster.name for each in readings))
        log.exception("the reading of snapshots broke", cluster=names)
        why = f"{type(error).__name__}: {error}"
        if self._when_broken is not None:
            self._stop.set()
            self._when_broken(why)
            return
        for reading in readings:
            reading.break_off(f"reading its snapshots broke, and is begun anew: {why}")


def _bytes(records: Sequence[Record]) -> int:
    return sum(len(record.value or b"") for record in records)
