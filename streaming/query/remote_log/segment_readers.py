"""The readers of remote segments of all clusters that a query watches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pyspark.sql import SparkSession

from streaming.query.remote_log.outbox import Outbox
from streaming.query.remote_log.position import PositionFile
from streaming.query.remote_log.segment_reader import SegmentReader
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline

_STOP_WITHIN_S: Final = 5.0


class SegmentReaders:
    """Begins and ends readers as clusters come, go and change."""

    def __init__(self, spark: SparkSession, *, is_fleet: bool) -> None:
        self._spark, self._is_fleet = spark, is_fleet
        self._readers: dict[str, tuple[Config, SegmentReader]] = {}
        self._outbox: Outbox | None = None

    def read(self, configs: Iterable[Config]) -> None:
        """Read those of these clusters, and of no others; what has not changed goes on.

        Raises:
            CheckpointError: the checkpoint cannot be used.
        """
        wanted = {c.cluster.name: c for c in configs if c.query.remote_log_metadata}
        self._end({name for name, (used, _) in self._readers.items() if wanted.get(name) != used})
        for name, config in wanted.items():
            if self._outbox is None:
                self._outbox = Outbox(config)
            if name not in self._readers:
                checkpoint = config.query.checkpoint
                file = PositionFile(self._spark, checkpoint, name, is_fleet=self._is_fleet)
                self._readers[name] = config, SegmentReader(config, self._outbox, file)

    def running(self) -> Iterator[tuple[str, bool]]:
        """Each cluster, and whether its segments are read."""
        for name, (_, reader) in self._readers.items():
            yield name, reader.is_running

    def close(self) -> None:
        """End all readers."""
        self._end({*self._readers})
        if self._outbox is not None:
            self._outbox.close()
            self._outbox = None

    def _end(self, names: set[str]) -> None:
        ended = [self._readers.pop(name)[1] for name in names]
        for reader in ended:
            reader.ask_to_stop()
        deadline = Deadline.after_s(_STOP_WITHIN_S)
        for reader in ended:
            reader.stop(deadline.left_s)
