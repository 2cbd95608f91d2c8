"""The sources of the collector, and what each of them is about."""

from __future__ import annotations

from typing import Final

from streaming.collector.about import NO_SOURCES, About
from streaming.collector.broker_configs import BrokerConfigSource
from streaming.collector.configs import ConfigSource
from streaming.collector.epochs import EpochSource
from streaming.collector.groups import GroupSource
from streaming.collector.jmx import MetricsSource
from streaming.collector.log_dirs import LogDirSource
from streaming.collector.metadata import MetadataSource
from streaming.collector.offsets import OffsetSource
from streaming.collector.quorum import QuorumSource
from streaming.collector.replica_status import ReplicaStatusSource
from streaming.collector.stable_offsets import StableOffsetSource
from streaming.collector.timestamps import TimestampSource

SOURCES: Final = (
    MetadataSource,
    ConfigSource,
    ReplicaStatusSource,
    QuorumSource,
    OffsetSource,
    StableOffsetSource,
    LogDirSource,
    BrokerConfigSource,
    TimestampSource,
    EpochSource,
    MetricsSource,
    GroupSource,
)
"""In the order in which they are read."""

ABOUT: Final[dict[str, About]] = {
    about.name: about
    for about in (*NO_SOURCES, *(about for source in SOURCES for about in source.about))
}
"""Everything that can have a problem, by its name."""
