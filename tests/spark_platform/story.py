"""Simulated cycles that are sent to a query, and what it writes of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from streaming.bus.sender import Sender
from streaming.runtime.config import Config
from tests.bench.deployment import START_MS, Simulated, send
from tests.spark_platform.observed import Cycle, Following
from tests.waiting import until

ANSWERS_WITHIN_S: Final = 150
"""After the loss of a driver: a new one starts, and repeats the batch that was running."""


class Driver(Protocol):
    """The process of a query."""

    log: Path

    @property
    def runs(self) -> bool:
        """It has not ended."""


class Story:
    """Cycles that are sent, and what is written of them."""

    def __init__(
        self,
        simulated: Simulated,
        config: Config,
        sender: Sender,
        following: Following,
        driver: Driver,
    ) -> None:
        self.simulated = simulated
        self.cycles: list[Cycle] = []
        self._config, self._driver = config, driver
        self._sender, self._following = sender, following

    @property
    def at_ms(self) -> int:
        """The time of the newest cycle."""
        return START_MS + 5_000 * (len(self.cycles) - 1)

    def cycle(self) -> None:
        """Send one."""
        self.cycles.append(self.simulated.encoded(START_MS + 5_000 * len(self.cycles)))
        send(self._config, self._sender, self.cycles[-1])

    def batch_that_runs(self) -> None:
        """Send a cycle, until its first snapshots are there and others are not."""
        for _ in range(5):
            self.cycle()
            self._until(lambda: bool(self._following.whole(self.at_ms)))
            if len(self._following.whole(self.at_ms)) < self._config.bus.shards:
                return
        raise AssertionError("each batch was over when its first snapshot was read")

    def until_written(self) -> None:
        """Until all of them are."""
        self._until(lambda: len(self._following.whole(self.at_ms)) == self._config.bus.shards)

    def _until(self, condition: Callable[[], bool]) -> None:
        def come() -> bool:
            assert self._driver.runs, "the driver has ended"
            self._following.poll()
            return condition()

        cycle = len(self.cycles) - 1
        until(
            come, ANSWERS_WITHIN_S, f"cycle {cycle} is not written ({self._driver.log})", pause_s=0
        )
