"""While observations of a cluster are late, finds out whom they wait for: bus, collector or query.

In a thread and with a connection of its own: a look may wait for a broker that is away, and those
whose snapshots arrive do not wait with it.
"""

from __future__ import annotations

import queue
import threading
from contextlib import suppress

from streaming.bus import bus_topics
from streaming.bus.connection import BusError
from streaming.exporter.intake.cluster_reading import ClusterReading
from streaming.exporter.intake.looker import Looker
from streaming.exporter.view_source import wall_clock_ms


class LateLooks:
    """Looks for the clusters of one bus, one after the other."""

    def __init__(self) -> None:
        self._asked: set[ClusterReading] = set()
        self._waiting: queue.SimpleQueue[ClusterReading | None] = queue.SimpleQueue()
        self._looker: Looker | None = None
        self._thread: threading.Thread | None = None

    def ask(self, reading: ClusterReading) -> None:
        """Look soon, unless that was asked already; it does not wait."""
        if reading in self._asked:
            return
        self._asked.add(reading)
        self._waiting.put(reading)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="looking", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Look no more, without waiting for a look in progress."""
        self._waiting.put(None)

    def _run(self) -> None:
        while (reading := self._waiting.get()) is not None:
            self._asked.discard(reading)
            self.look(reading)
        self._disconnect()

    def look(self, reading: ClusterReading) -> None:
        """Look now."""
        names = bus_topics.topics(reading.config)
        since_ms = wall_clock_ms() - reading.view.rhythm.stale_after_ms
        try:
            looker = self._looker = self._looker or Looker(reading.config)
            arrive = looker.has_records_since(names.observations, since_ms)
            leaderless = looker.leaderless((names.snapshots, names.events))
        except BusError:
            self._disconnect()
            reading.note_silence()
        else:
            reading.note_bus(arrive, leaderless)

    def _disconnect(self) -> None:
        looker, self._looker = self._looker, None
        if looker is not None:
            with suppress(Exception):  # of a client that goes whatever it says
                looker.close()
