"""Reads the observations of a span, for a capsule or to fill a gap of the archive."""

from __future__ import annotations

from typing import Final

from streaming.bus.bus_topics import topics
from streaming.bus.connection import BusError
from streaming.bus.reader import Reader, Since
from streaming.bus.record import key
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from streaming.runtime.quantities import utc_text

_SKEW_MS: Final = 60_000
"""So long before or after its cycle a message may be written: clocks differ, and the collector
sends a cycle when it is over."""


def observations(
    config: Config, from_ms: int, to_ms: int, within_s: float = 120.0, most_bytes: int = 1 << 30
) -> list[tuple[int, bytes]]:
    """Shard and message of what was observed from a moment to another, and some more.

    Args:
        config: names the bus, the cluster and the number of its shards.
        from_ms: where the span begins; 0 for all that the bus keeps.
        to_ms: where it ends.
        within_s: how long reading may take.
        most_bytes: of messages in memory: by default twenty minutes of 500 000 replicas.

    Raises:
        BusError: the bus cannot be read, not in time, or there is more than fits into memory.
    """
    shards = {key(config.cluster.name, n): n for n in range(config.bus.shards)}
    start, until = Since(max(from_ms - _SKEW_MS, 0)), Since(to_ms + _SKEW_MS)
    messages: list[tuple[int, bytes]] = []
    size = 0
    with Reader(config, [topics(config).observations], start, until) as reader:
        for record in reader.to_end(Deadline.after_s(within_s)):
            shard, is_late = shards.get(record.key or b""), record.timestamp_ms >= until.at_ms
            if record.value is None or shard is None or is_late:
                continue
            messages.append((shard, record.value))
            size += len(record.value)
            if size > most_bytes:
                raise BusError(
                    f"bus {config.bus_bootstrap}: it keeps more than {most_bytes >> 30} GiB of "
                    f"observations from before {utc_text(to_ms)}: an earlier end may fit"
                )
    return messages
