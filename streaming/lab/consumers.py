"""The demo's consumers: one group at the log end, and one that replays old records.

Most of the records that the second one reads are in remote storage.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, Final

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from streaming.lab.traffic import COLD_TOPIC

AT_THE_END: Final = "billing"
"""A group that keeps up with the producers."""

REPLAY: Final = "replay"
"""A group that repeatedly reads the topic with a history."""

FOLLOWED: Final = ("orders", "payments")
REPLAYED_AT_ONCE: Final = 10
_FETCHES: Final = {"fetch_min_bytes": 65_536, "fetch_max_wait_ms": 500}
"""A broker answers twice a second, and not for each record: that cost it most of its CPU time."""

PAUSE_S: Final = 0.5
"""Ten records in each half second: a replay of the history takes two and a half minutes."""


class Consumers:
    """Two groups that read until stopped, also while brokers are lost."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(turn, group), name=group, daemon=True)
            for group, turn in ((AT_THE_END, self._follow), (REPLAY, self._replay))
        ]

    def start(self) -> None:
        """Start a thread for each group."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop reading; returns within seconds."""
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=10)

    def _run(self, turn: Callable[[Any], None], group: str) -> None:
        while not self._stop.is_set():
            # The demo loses brokers on purpose: a failed consumer is replaced by a new one.
            with contextlib.suppress(KafkaError, OSError, AssertionError):
                consumer = KafkaConsumer(
                    bootstrap_servers=self._bootstrap,
                    group_id=group,
                    auto_offset_reset="earliest",
                    auto_commit_interval_ms=1_000,
                    max_poll_records=REPLAYED_AT_ONCE if group == REPLAY else 500,
                    **_FETCHES,
                )
                try:
                    turn(consumer)
                finally:
                    consumer.close(autocommit=False, timeout_ms=2_000)
            self._stop.wait(1)

    def _follow(self, consumer: Any) -> None:
        consumer.subscribe(FOLLOWED)
        while not self._stop.is_set():
            consumer.poll(timeout_ms=500)

    def _replay(self, consumer: Any) -> None:
        place = TopicPartition(COLD_TOPIC, 0)
        consumer.assign([place])
        while not self._stop.wait(PAUSE_S):
            if not consumer.poll(timeout_ms=1_000) and consumer.position(place):
                consumer.seek_to_beginning(place)
