"""Each cluster's own shard in the driver: steps it after each batch, and writes its snapshot.

A batch's tasks return the reports of their shards as rows without a topic: Spark collects them
while it runs the batch (``observe``) and puts them into its progress report. So reports need
neither another batch, as they would on the observations topic, nor a second stateful operator,
which existing checkpoints do not have. And the cluster's findings are of the same cycle as the
shards'.

Its state is its newest snapshot on the bus; the checkpoint knows nothing of it. A repeated batch
has the same reports, which changes nothing. If the driver is lost before it wrote the snapshot, its
reports are lost: the next cycle brings newer ones.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import structlog
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from streaming.bus import bus_topics, record
from streaming.bus.connection import BusError
from streaming.bus.sender import Sender
from streaming.bus.snapshots import newest_of_cluster
from streaming.query import event_rows
from streaming.query.processor import REPORTS
from streaming.runtime.config import Config
from streaming.runtime.plugins import catalog_of
from twin.cluster_step import empty_cluster, step_cluster
from twin.engine import codec, frames, updates
from twin.engine.frames import Frame, InvalidFrame

OBSERVED: Final = "shard_reports"
"""The name under which Spark's progress has the reports of a batch."""

log = structlog.get_logger("query")


def without_reports(output: DataFrame) -> DataFrame:
    """The rows for topics; those for the cluster's own shard go into the progress of the batch."""
    # As text, since the report of a batch is JSON without nested rows.
    report = F.when(F.col("topic") == REPORTS, F.base64("value"))
    return output.observe(OBSERVED, F.array_join(F.collect_list(report), ",").alias("all")).where(
        F.col("topic") != REPORTS
    )


class ClusterShards:
    """The own shards of all clusters that a query watches."""

    def __init__(self) -> None:
        self._shards: dict[str, ClusterShard] = {}
        self._sender: Sender | None = None

    def watch(self, configs: Iterable[Config]) -> None:
        """Watch these clusters, each from its newest snapshot on the bus, and no others.

        A cluster that was watched before, and has not changed, goes on.

        Raises:
            BusError: the bus cannot be reached.
        """
        before, self._shards = self._shards, {}
        for config in configs:
            if self._sender is None:
                self._sender = Sender(config)
            known = before.get(config.cluster.name)
            if known is None or not known.is_of(config):
                known = ClusterShard(config, self._sender)
            self._shards[config.cluster.name] = known

    def take(self, progress: Mapping[str, Any]) -> None:
        """Step the shards after a batch that has ended, by Spark's report of it."""
        reported: dict[str, list[Frame]] = {}
        kinds = next((shard.kinds for shard in self._shards.values()), {})
        for frame in reports_of(progress, kinds):
            reported.setdefault(frame.header.cluster, []).append(frame)
        for name, shard in self._shards.items():
            shard.step(reported.get(name, []))

    def close(self) -> None:
        """Send buffered messages, and disconnect."""
        if self._sender is not None:
            self._sender.close()


class ClusterShard:
    """Takes the reports of one cluster; keeps the state, and sends snapshots and events."""

    def __init__(self, config: Config, sender: Sender) -> None:
        """Continue from the newest snapshot on the bus."""
        catalog, self._cluster = catalog_of(config), config.cluster.name
        self._config, self._sender = config, sender
        self._topics = bus_topics.topics(config)
        self._failure = ""
        self._state = empty_cluster(catalog, self._cluster, config.bus.shards)
        try:
            self._state = newest_of_cluster(config) or self._state
        except BusError as error:
            log.warning("unavailable", what="the cluster's own shard", why=str(error),
                        without="its memory: it begins anew")  # fmt: skip

    def is_of(self, config: Config) -> bool:
        """Whether a new one for that configuration would be the same."""
        return config.bus == self._config.bus

    @property
    def kinds(self) -> frames.Kinds:
        """The kinds of reports that it takes."""
        return self._state.catalog.observations

    def step(self, reported: Iterable[Frame]) -> None:
        """Step the shard with what the cluster's other shards reported."""
        try:
            after, changes = step_cluster(self._state, reported)
            if after is self._state:
                return
            self._state = after
            for part, message in enumerate(codec.encode_parts(after)):
                key = record.key(self._cluster, after.shard) + updates.place(0, part).encode()
                self._sender.send(self._topics.snapshots, key, message)
            for change in changes:
                event_key, value = event_rows.changed(change)
                self._sender.send(self._topics.events, event_key.encode(), value)
        except (BusError, InvalidFrame) as error:
            if str(error) != self._failure:  # log each cause once
                log.error("the cluster's findings were not written", error=str(error))
            self._failure = str(error)
        else:
            self._failure = ""


def reports_of(progress: Mapping[str, Any], kinds: frames.Kinds) -> Iterator[Frame]:
    """The reports in Spark's report of a batch; none where it has no output."""
    observed = (progress.get("observedMetrics") or {}).get(OBSERVED)
    for text in filter(None, (observed["all"] if observed else "").split(",")):
        yield from frames.decode(base64.b64decode(text), kinds).frames
