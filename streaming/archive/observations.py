"""Reads observations of a span from the bus, to fill a gap of the archive with them."""

from __future__ import annotations

from typing import Final

from streaming import bus
from streaming.bus.clients import Since
from streaming.history.archive.filling import NotFilledError
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline

WITHIN_S: Final = 120.0
MOST_BYTES: Final = 1 << 30
"""In memory: twenty minutes of 500 000 replicas."""

_SKEW_MS: Final = 60_000
"""So long before or after its cycle a message may be written: clocks differ, and the collector
sends a cycle when it is over."""


def observations(config: Config, from_ms: int, to_ms: int) -> list[tuple[int, bytes]]:
    """Shard and message of what was observed from a moment to another, and some more.

    Raises:
        BusError: the bus cannot be read, or not in time.
        NotFilledError: there is more than fits into memory.
    """
    shards = {bus.key(config.cluster.name, n): n for n in range(config.bus.shards)}
    size, deadline = 0, Deadline.after_s(WITHIN_S)
    found: list[tuple[int, bytes]] = []
    start, until = Since(max(from_ms - _SKEW_MS, 0)), Since(to_ms + _SKEW_MS)
    with bus.Reader(config, [bus.topics(config).observations], start, until) as reader:
        while not reader.caught_up():
            if deadline.is_over:
                raise bus.BusError(f"bus {config.bus_bootstrap}: it cannot be read in time")
            for record in reader.poll(200):
                key, value = record.key or b"", record.value
                late = record.timestamp_ms >= until.at_ms
                if value is None or key not in shards or late:
                    continue
                found.append((shards[key], value))
                size += len(value)
                if size > MOST_BYTES:
                    raise NotFilledError(f"the observations take more than {MOST_BYTES >> 30} GiB")
    return found
