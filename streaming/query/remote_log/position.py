"""How far a cluster's records about remote segments were read: a file in the checkpoint."""

from __future__ import annotations

from contextlib import suppress
from typing import Final
from urllib.parse import quote

import msgspec
from pyspark.sql import SparkSession

from streaming.query.state.checkpoint import location
from streaming.query.state.folder import Folder
from streaming.query.state.offset_log import offset_log
from streaming.runtime.kafka.remote_log_access import TOPIC

FOLDER: Final = "remote-segments"
"""Below the checkpoint. Without it, the whole history is read again."""


class Position(msgspec.Struct, frozen=True):
    """Where to go on: the next offset of each partition of the topic with that id."""

    topic_id: str = ""  # empty: not known, any topic
    next_offsets: dict[int, int] = {}

    def in_topic(self, topic_id: str) -> Position:
        """The position in the topic that is there now: one that was made anew is read whole."""
        same = self.topic_id in ("", topic_id)
        return Position(topic_id, dict(self.next_offsets) if same else {})


class PositionFile:
    """The file with the position of one cluster."""

    def __init__(
        self, spark: SparkSession, checkpoint: str, cluster: str, *, is_fleet: bool = False
    ) -> None:
        """Nothing is read yet.

        Args:
            spark: the session.
            checkpoint: ``query.checkpoint``.
            cluster: its name.
            is_fleet: there may be several; then a checkpoint of Spark may be that of another.

        Raises:
            CheckpointError: the checkpoint cannot be used.
        """
        self._spark, self._checkpoint = spark, location(checkpoint, FOLDER)
        self._is_fleet = is_fleet
        self._folder = Folder(spark, self._checkpoint)
        self._name = f"{quote(cluster, safe='')}.json"

    def read(self) -> Position:
        """The position that was written last; without one, where Spark's own checkpoint ends.

        Raises:
            CheckpointError: the checkpoint cannot be read.
        """
        if self._folder.written_at_ms(self._name) is None:
            return Position() if self._is_fleet else self._of_spark()
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(self._folder.read(self._name), type=Position)
        return Position()  # a program was killed while it wrote: repeats are discarded

    def write(self, position: Position) -> None:
        """Replace the position.

        Raises:
            CheckpointError: the checkpoint cannot be written.
        """
        self._folder.write(self._name, msgspec.json.encode(position))

    def _of_spark(self) -> Position:
        """The end of the last batch of the query that builds before this one had."""
        commits = Folder(self._spark, f"{self._checkpoint}/commits").names()
        batches = [int(name) for name in commits if name.isdigit()]
        if not batches:
            return Position()
        for entry in offset_log(self._spark, self._checkpoint, max(batches)):
            if TOPIC in entry:
                return Position("", {int(n): offset for n, offset in entry[TOPIC].items()})
        return Position()
