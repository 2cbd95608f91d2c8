"""Appends the records of one cluster to its tables."""

from __future__ import annotations

import time
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from streaming.archive import own_metrics as own
from streaming.archive.bus_records import BusRecords, Offsets, as_records, before
from streaming.archive.owed import Owed, OwedBatch
from streaming.bus import bus_topics
from streaming.bus.observed import observations
from streaming.bus.snapshots import recent_records
from streaming.history.archive.delta import ArchiveTables
from streaming.history.archive.feed import Feed
from streaming.history.archive.gap_filling import Filler
from streaming.history.archive.row_layout import WRITTEN_IN_ORDER, hour_of
from streaming.runtime.config import Config
from streaming.runtime.liveness import touch_liveness_file
from streaming.runtime.plugins import catalog_of
from streaming.runtime.program_metrics import ProgramMetrics

log = structlog.get_logger("archive")


class ClusterBatches:
    """The archive of one cluster, which takes its part of each batch."""

    def __init__(
        self, config: Config, bus: BusRecords, owed: Owed, metrics: ProgramMetrics
    ) -> None:
        """Nothing is read yet.

        Args:
            config: with the number of shards.
            bus: where its records are.
            owed: the batches that it has not taken.
            metrics: about it.
        """
        self._config, self._bus, self._owed, self._metrics = config, bus, owed, metrics
        self._tables = ArchiveTables(config.archive.path)
        self._topics = bus_topics.topics(config)
        self._feed: Feed | None = None  # behind the last batch that all tables have
        self._hour = ""

    @property
    def topics(self) -> tuple[str, str]:
        """The topics of the bus that it reads."""
        return self._topics.snapshots, self._topics.events

    @property
    def owes(self) -> bool:
        """Whether there are batches that it has not taken."""
        return bool(self._owed)

    def open(self) -> None:
        """Try whether the tables can be read.

        Raises:
            ArchiveError: they cannot.
        """
        self._tables.open()

    def take(self, records: pa.Table, writer: str, batch: int) -> None:
        """Append the rows of its records, after those of the batches that it owes.

        Args:
            records: of all clusters.
            writer: the id of the query, which makes batch numbers unique.
            batch: its number.

        Raises:
            ArchiveError: the archive cannot be written.
        """
        while owed := self._owed.first(before=batch, is_begun=self._feed is None):
            missed = self._bus.between(owed.begins, owed.ends)
            self._take(missed, writer, owed.batch, owed.begins)
            self._owed.settle(owed.batch)
        self._take(records, writer, batch)
        self._owed.settle(batch)

    def owe(self, batch: int) -> None:
        """Leave the batch for later.

        Raises:
            CheckpointError: the checkpoint cannot be written.
        """
        begins, ends = (self._bus.ends(n, self.topics) for n in (batch - 1, batch))
        self._owed.add(OwedBatch(batch, begins, ends))

    def _take(
        self, records: pa.Table, writer: str, batch: int, begins: Offsets | None = None
    ) -> None:
        began_s = time.monotonic()
        feed, self._feed = self._feed, None  # what fails here begins anew
        if feed is None:
            feed = self._begun(self._bus.ends(batch - 1, self.topics)
                               if begins is None else begins)  # fmt: skip
        gaps, filled = feed.gaps, feed.filled
        rows = feed.take(*(as_records(_of(records, topic)) for topic in self.topics))
        for name, added in rows.items():
            if self._tables.append(name, added, writer, batch):
                self._metrics.add(own.ROWS, added.num_rows, name)
        self._feed = feed
        self._metrics.add(own.BATCHES)
        self._metrics.add(own.GAPS, feed.gaps - gaps)
        self._metrics.add(own.FILLED, feed.filled - filled)
        if feed.gaps > gaps:
            log.warning("gap", cluster=self._config.cluster.name, shards=feed.gaps - gaps,
                        why=feed.not_filled)  # fmt: skip
        self._metrics.observe(own.BATCH_SECONDS, time.monotonic() - began_s)
        if feed.archived:
            newest_ms = max(feed.archived.values())
            self._metrics.set(own.NEWEST_AT, newest_ms / 1_000)
            self._tidy(newest_ms)

    def _tidy(self, newest_ms: int) -> None:
        """Once an hour: compact what is over, drop what is old."""
        hour = hour_of(newest_ms)
        if hour == self._hour:
            return
        self._hour = hour
        self._tables.compact(hour)
        self._tables.drop(hour_of(newest_ms - self._config.archive.retention_ms))
        for name in WRITTEN_IN_ORDER:
            self._metrics.set(own.BYTES, self._tables.bytes(name), name)

    def _begun(self, begins: Offsets) -> Feed:
        """A feed that knows what is archived, and the snapshots before a batch.

        All partitions of the bus are read, also those without a record in the batch: the messages
        of a shard are in several partitions.
        """
        config, tables, topic = self._config, self._tables, self._topics.snapshots
        catalog, cluster, shards = catalog_of(config), config.cluster.name, config.bus.shards
        filler = Filler(
            catalog, cluster, shards, tables, partial(observations, config),
            partial(touch_liveness_file, config.health.folder, "archive"),
        )  # fmt: skip
        feed = Feed(
            catalog, cluster, shards, config.archive.measurements_ms,
            tables.newest_cycles(), tables.newest_events(), filler, tables.events_known_from(),
        )  # fmt: skip
        ends = {n: offset for n, offset in begins.get(topic, {}).items() if offset > 0}
        if ends:
            recent = before(ends, recent_records(config))
            feed.seed(as_records(self._bus.between({topic: recent}, {topic: ends})))
        return feed


def _of(records: pa.Table, topic: str) -> pa.Table:
    return records.filter(pc.equal(records.column("topic"), topic))
