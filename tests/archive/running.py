"""``kafka-twin archive`` as a process, and the bus that it reads, which simulated twins write."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from streaming.bus import bus_topics
from streaming.bus.sender import Sender
from streaming.history.archive.delta import ArchiveTables
from streaming.runtime.config import Config
from tests.archive.bus import SimulatedBus


class Written:
    """A simulated twin whose messages are sent to the bus."""

    def __init__(self, config: Config, bus: SimulatedBus) -> None:
        self.bus, self.folder = bus, Path(config.archive.path)
        bus_topics.ensure_topics(config)
        self._topics, self._sender = bus_topics.topics(config), Sender(config)
        self._sent = self._events_sent = 0

    def cycle(self) -> None:
        """A cycle, and an event."""
        number = len(self.bus.states)
        self.bus.cycle()
        self.bus.event(f"event-{number}", self.bus.at_ms(number))
        for record in self.bus.records[self._sent :]:
            self._sender.send(self._topics.snapshots, record.key, record.value)
        for record in self.bus.events[self._events_sent :]:
            self._sender.send(self._topics.events, record.key, record.value)
        self._sent, self._events_sent = len(self.bus.records), len(self.bus.events)
        self._sender.flush(60_000)

    def newest_ms(self) -> int:
        """The newest cycle that is archived of all shards; 0 if there is none."""
        return min(ArchiveTables(str(self.folder)).newest_cycles().values(), default=0)

    def has(self, at_ms: int) -> bool:
        """Whether the cycles up to that moment are archived."""
        return self.newest_ms() >= at_ms


class Program:
    """The process, which is started again and again."""

    def __init__(self, path: Path) -> None:
        self.log = path.with_name("archive.log")
        self._command = [sys.executable, "-m", "streaming", "--config", str(path), "archive"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def restart_if_ended(self) -> None:
        """As ``kafka-twin run`` does."""
        assert self._process is not None
        if self._process.poll() is not None:
            self.start()

    def end(self, how: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(120)
