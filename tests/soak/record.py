"""The twin's own record of leader changes, as its API serves it, and when it observed what."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from streaming.bus import bus_topics
from streaming.bus.reader import Reader
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from streaming.runtime.errors import UserError
from tests.soak.background import Background
from tests.soak.controller_log import Key
from tests.web import get
from twin.engine import frames
from twin.tables.observations import PartitionsFrame

READ_EVERY_S: Final = 3.0
"""The API keeps the last 1 000; a rolling restart makes some dozens a minute."""

_READ_WITHIN_S: Final = 300.0


class RecordError(UserError, RuntimeError):
    """The record cannot be read, or is not the whole one."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """One leader change, with what the twin had predicted and its own judgement."""

    topic: str
    partition: int
    at_ms: int  # of the observation that has the new leader
    cause: str
    result: str
    overtaken_by: str
    old_leader: int
    new_leader: int
    predicted_leader: int | None

    @property
    def key(self) -> Key:
        """Topic and partition number."""
        return self.topic, self.partition

    @staticmethod
    def from_row(row: Mapping[str, Any]) -> Prediction:
        """The prediction in a row of the API."""
        return Prediction(
            row["topic"],
            row["partition"],
            row["at_ms"],
            row["cause"],
            row["result"],
            row["overtaken_by"] or "",
            row["old_leader"],
            row["new_leader"],
            row["predicted_leader"],
        )


@dataclass
class Recorder(Background):
    """A thread that collects the record, since the API keeps only its end."""

    url: str
    rows: dict[tuple[str, int, int], Mapping[str, Any]] = field(default_factory=dict)
    problem: str = ""

    def run(self) -> None:
        """Record until the block ends."""
        while not self.over.wait(READ_EVERY_S):
            self.read()

    def read(self) -> None:
        """Take what the API has now; it may be restarting."""
        status, body = get(f"{self.url}/api/v1/predictions?limit=1000")
        if status in (0, 503):
            return
        if status != 200:
            self.problem = f"GET /api/v1/predictions: {status}: {body[:200]}"
            return
        for row in json.loads(body)["predictions"]:
            self.rows[row["topic"], row["partition"], row["at_ms"]] = row

    def predictions(self) -> list[Prediction]:
        """All that was read, in order of time.

        Raises:
            RecordError: the API refused.
        """
        if self.problem:
            raise RecordError(self.problem)
        return sorted(map(Prediction.from_row, self.rows.values()), key=lambda p: (p.at_ms, p.key))

    def counted(self) -> int:
        """Leader changes that the counters on /metrics have counted.

        Raises:
            RecordError: they cannot be read.
        """
        return self._counter("predictions_total")

    def cold_elections(self) -> int:
        """Elections of a cold replica while a warm one was in sync, likewise."""
        return self._counter("cold_elections_total")

    def _counter(self, name: str) -> int:
        status, text = get(f"{self.url}/metrics")
        if status != 200:
            raise RecordError(f"GET /metrics: {status}")
        samples = [line for line in text.splitlines() if line.startswith(f"kafka_twin_{name}")]
        return int(sum(float(line.rpartition(" ")[2]) for line in samples))


def observed_ms(config: Config) -> dict[int, list[int]]:
    """The times of all observations of leaders that are on the bus, sorted, by shard.

    Raises:
        BusError: they cannot be read, or not in time.
    """
    times: dict[int, set[int]] = {shard: set() for shard in range(config.bus.shards)}
    with Reader(config, [bus_topics.topics(config).observations], "beginning") as reader:
        for record in reader.to_end(Deadline.after_s(_READ_WITHIN_S)):
            for header, _ in frames.headers(record.value or b""):
                if header.kind == PartitionsFrame.kind:
                    times[header.shard].add(header.observed_at_ms)
    return {shard: sorted(of_shard) for shard, of_shard in times.items()}
