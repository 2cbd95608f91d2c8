"""What a cluster needs before it is read: its bus topics, and its number of shards."""

from __future__ import annotations

from streaming.bus import bus_topics
from streaming.bus.shards import with_shards_of_snapshots
from streaming.exporter.intake.cluster_reading import ClusterReading


def prepare(reading: ClusterReading) -> bool:
    """Make a cluster ready to be read; false while the collector has not chosen its shards.

    Raises:
        UserError: the bus cannot be reached, or not be used for this cluster.
    """
    bus_topics.ensure_topics(reading.config)
    known = with_shards_of_snapshots(reading.config)
    if known is None:
        return False
    reading.expect(known)
    return True
