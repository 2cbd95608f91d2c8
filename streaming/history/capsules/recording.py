"""Reads what the bus keeps of a cluster. The only file here that needs a Kafka client."""

from __future__ import annotations

from typing import Final

from streaming.bus import bus_topics
from streaming.bus.observed import observations
from streaming.bus.reader import Reader
from streaming.bus.shards import with_known_shards
from streaming.history.capsules.saving import Recorded
from streaming.history.moment import MomentError
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
        BusError: the bus cannot be read, not in time, or there is more than fits into memory.
        MomentError: there is nothing yet.
    """
    known = with_known_shards(config)
    if known is None:
        raise MomentError("nothing was observed yet: does the collector run?")
    config = known
    messages = observations(config, 0, to_ms, within_s, MOST_BYTES)
    prefix = config.cluster.name.encode() + b"/"
    with Reader(config, [bus_topics.topics(config).events], EVENTS_READ_BACK) as reader:
        events = [
            record.value
            for record in reader.to_end(Deadline.after_s(within_s))
            if record.value is not None and (record.key or b"").startswith(prefix)
        ]
    return Recorded(
        config.cluster.name,
        config.bus.shards,
        messages,
        events,
        proposals=enabled_proposals(config),
        own_topics=bus_topics.own_topics(config),
    )
