"""Reads what the bus keeps of a cluster. The only file here that needs a Kafka client."""

from __future__ import annotations

from typing import Final

from streaming import bus
from streaming.bus.clients import Start
from streaming.history.capsules.saving import Recorded
from streaming.history.moments import MomentError
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from streaming.runtime.plugins import enabled_proposals

WITHIN_S: Final = 600.0
MOST_BYTES: Final = 3 << 30
"""Of observations in memory: an hour of 500 000 replicas."""

EVENTS_READ_BACK: Final = 200_000
"""Events of each partition: those of a week, unless much more happens than that."""


def recorded(config: Config, to_ms: int, within_s: float = WITHIN_S) -> Recorded:
    """All observations that the bus keeps up to a moment, and its newest events.

    Raises:
        BusError: the bus cannot be read, or not in time.
        MomentError: there is more than fits into memory, or nothing yet.
    """
    known = bus.with_known_shards(config)
    if known is None:
        raise MomentError("nothing was observed yet: does the collector run?")
    config, names = known, bus.topics(known)
    shards = {bus.key(config.cluster.name, n): n for n in range(config.bus.shards)}
    prefix, size, deadline = config.cluster.name.encode() + b"/", 0, Deadline.after_s(within_s)
    messages: list[tuple[int, bytes]] = []
    events: list[bytes] = []
    starts: dict[str, Start] = {names.observations: "beginning", names.events: EVENTS_READ_BACK}
    with bus.Reader(config, list(starts), starts) as reader:
        while not reader.caught_up():
            if deadline.is_over:
                raise bus.BusError(f"bus {config.bus_bootstrap}: it cannot be read in time")
            for record in reader.poll(200):
                key, value = record.key or b"", record.value
                if value is None:
                    continue
                if record.topic == names.events:
                    if key.startswith(prefix):
                        events.append(value)
                elif key in shards and record.timestamp_ms <= to_ms + _LATEST_MS:
                    messages.append((shards[key], value))
                    size += len(value)
                    if size > MOST_BYTES:
                        raise MomentError(
                            f"the bus keeps more than {MOST_BYTES >> 30} GiB of observations "
                            "before --to: give an earlier one"
                        )
    own_topics = bus.own_topics(config)
    return Recorded(
        config.cluster.name, config.bus.shards, messages, events,
        proposals=enabled_proposals(config), own_topics=own_topics,
    )  # fmt: skip


_LATEST_MS: Final = 60_000
"""So long after its cycle a message may be written; clocks differ as well."""
