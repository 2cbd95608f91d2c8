"""The sources of the collector. Each has a file in this folder and a line in this list."""

from __future__ import annotations

from typing import Final

from streaming.collector.about import NO_SOURCES, About
from streaming.collector.source import Setup, Source
from streaming.collector.sources.broker_configs import BrokerConfigSource
from streaming.collector.sources.configs import ConfigSource
from streaming.collector.sources.epoch_ends import EpochEndSource
from streaming.collector.sources.epochs import EpochSource
from streaming.collector.sources.groups import GroupSource
from streaming.collector.sources.jmx import MetricsSource
from streaming.collector.sources.leader_offsets import LeaderOffsetSource
from streaming.collector.sources.log_dirs import LogDirSource
from streaming.collector.sources.metadata import MetadataSource
from streaming.collector.sources.offsets import OffsetSource
from streaming.collector.sources.quorum import QuorumSource
from streaming.collector.sources.replica_status import ReplicaStatusSource
from streaming.collector.sources.timestamps import TimestampSource
from streaming.collector.sources.transactions import TransactionSource

SOURCES: Final[tuple[type[Source], ...]] = (
    MetadataSource,
    ConfigSource,
    ReplicaStatusSource,
    QuorumSource,
    OffsetSource,
    LeaderOffsetSource,
    LogDirSource,
    BrokerConfigSource,
    TimestampSource,
    TransactionSource,
    EpochEndSource,
    EpochSource,
    MetricsSource,
    GroupSource,
)
"""In the order in which they are read: each follows the sources whose readings it needs. The first
lists the cluster. Sources that ask every broker are neighbours and share a round trip, in which a
broker answers in this order. Log ends come first, since they are compared between brokers."""

ABOUT: Final[dict[str, About]] = {
    about.name: about
    for about in (*NO_SOURCES, *(about for source in SOURCES for about in source.about))
}
"""Everything that can report a problem, by name."""


def make_sources(setup: Setup, *ready: Source) -> tuple[Source, ...]:
    """Make one source of each class, in order; a ``ready`` one replaces the new one."""
    made = (
        next((source for source in ready if isinstance(source, kind)), None) or kind.make(setup)
        for kind in SOURCES
    )
    return tuple(source for source in made if source is not None)
