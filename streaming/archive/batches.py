"""Gives each cluster its part of a batch, in the driver of the query.

With several clusters, one whose tables cannot be written, or that takes long, owes the batch: the
query goes on for the others, and it takes what it owes with a later batch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

import structlog
from pyspark.sql import DataFrame, SparkSession

from streaming.archive.bus_records import BusRecords, columns
from streaming.archive.cluster_batches import ClusterBatches
from streaming.archive.owed import Owed
from streaming.query.state.folder import Folder
from streaming.runtime.config import Config
from streaming.runtime.errors import UserError
from streaming.runtime.program_metrics import ProgramMetrics
from streaming.runtime.threads.workers import Workers

LATE_AFTER_S: Final = 10.0
"""The least patience with a cluster; by default the next batch is due after a minute."""

_OWED: Final = "owed"

log = structlog.get_logger("archive")


class Batches:
    """Takes the batches of one bus. ``failure`` is why the last one was not taken."""

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: str,
        metrics: Mapping[str, ProgramMetrics],
        patience_s: float,
        *,
        is_fleet: bool,
    ) -> None:
        """
        Args:
            spark: the session.
            checkpoint: of the query, as Spark takes it.
            metrics: by the name of each cluster; more may come.
            patience_s: how long a cluster may take before others go on without it.
            is_fleet: there may be several clusters, and an error of one is none of others.
        """
        self._spark, self._checkpoint = spark, checkpoint
        self._metrics, self._is_fleet = metrics, is_fleet
        self._workers = Workers(max(patience_s, LATE_AFTER_S))
        self._clusters: dict[str, tuple[Config, ClusterBatches]] = {}
        self._said: dict[str, str] = {}
        self._writer, self._is_named = "", threading.Event()
        self.failure: UserError | None = None

    def watch(self, configs: Iterable[Config]) -> None:
        """Archive these clusters from now on; those that are as before continue.

        Raises:
            ArchiveError: the tables of the only cluster cannot be used.
            CheckpointError: the checkpoint cannot be used.
        """
        before, self._clusters = self._clusters, {}
        for config in configs:
            name = config.cluster.name
            is_same = name in before and before[name][0] == config
            self._clusters[name] = before[name] if is_same else (config, self._begun(config))

    def _begun(self, config: Config) -> ClusterBatches:
        name = config.cluster.name
        owed = Owed(Folder(self._spark, f"{self._checkpoint}/{_OWED}"), name)
        bus = BusRecords(self._spark, config, self._checkpoint)
        made = ClusterBatches(config, bus, owed, self._metrics[name])
        if not self._is_fleet:
            made.open()
        return made

    def name(self, writer: str) -> None:
        """Begin: the id of the query, which the checkpoint keeps, makes batch numbers unique."""
        self._writer = writer
        self._is_named.set()

    def take(self, rows: DataFrame, batch: int) -> None:
        """Append the rows of a batch, and keep the archive tidy.

        Raises:
            ArchiveError: the archive of the only cluster cannot be written.
            CheckpointError: what a cluster owes cannot be written.
        """
        self._is_named.wait()
        try:
            self._take(rows, batch)
        except UserError as error:
            self.failure = error
            raise

    def _take(self, rows: DataFrame, batch: int) -> None:
        records = columns(rows).toArrow()
        here = set(records.column("topic").unique().to_pylist())
        tasks: dict[str, Callable[[], None]] = {
            name: partial(each.take, records, self._writer, batch)
            for name, (_, each) in self._clusters.items()
            if each.owes or not here.isdisjoint(each.topics)
        }
        if not self._is_fleet:
            for task in tasks.values():
                task()
            return
        failed = self._workers.run(tasks)
        for name, error in failed.items():
            self._clusters[name][1].owe(batch)
            self._say(name, error)
        for name in tasks.keys() & self._said.keys() - failed.keys():
            log.info("archived again", cluster=name)
            del self._said[name]

    def _say(self, name: str, error: Exception) -> None:
        """Log each cause once."""
        if self._said.get(name) != str(error):
            is_bug = not isinstance(error, UserError | TimeoutError)
            log.error("not archived yet", cluster=name, why=str(error),
                      exc_info=error if is_bug else None)  # fmt: skip
        self._said[name] = str(error)
