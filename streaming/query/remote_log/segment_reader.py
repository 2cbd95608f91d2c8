"""Reads the records about remote segments of one cluster, and writes them to the bus.

A thread with a plain consumer, beside the twin's query: a Spark query would cost Spark's fixed
share of a core for a topic that gets a record now and then. While a broker of that cluster is
frozen, only this thread waits for it.

What was read is kept after it has arrived on the bus. After a restart the last seconds are sent
again; the state discards repeats.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

import structlog
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from streaming.bus.record import Record
from streaming.query.remote_log.metadata_topic import SegmentMessages
from streaming.query.remote_log.outbox import Outbox
from streaming.query.remote_log.position import Position, PositionFile
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from streaming.runtime.errors import UserError
from streaming.runtime.kafka import clients
from streaming.runtime.kafka.remote_log_access import TOPIC, ReadAccess, segment_topic

LOOK_EVERY_S: Final = 15.0
"""How often a cluster whose topic cannot be read, or is not there, is asked again."""

LOOK_WHILE_READING_EVERY_S: Final = 60.0
"""How often it is checked that the topic is the same one, and may be read."""

KEEP_EVERY_S: Final = 5.0
"""How often the position is written at most: a store of objects takes a tenth of a second."""

_POLL_MS: Final = 1_000
_PAUSE_S: Final = 2.0
"""Between polls while no records come: a poll costs a millisecond of CPU, and a fleet has many
consumers."""

_FETCH_WAIT_MS: Final = 5_000
"""How long brokers keep a fetch that finds nothing; what comes meanwhile is answered at once."""

_REQUEST_MS: Final = 10_000
_RECORDS_A_POLL: Final = 5_000
_WITHOUT: Final = "findings on remote segments"

log = structlog.get_logger("query")


class SegmentReader:
    """The thread of one cluster, until it is stopped; what fails is tried again."""

    def __init__(self, config: Config, outbox: Outbox, file: PositionFile) -> None:
        self.is_running = False  # whether records are read, or there are none to read
        self._config, self._outbox, self._file = config, outbox, file
        self._messages = SegmentMessages(config)
        self._position: Position | None = None  # read at the first use
        self._keep = Deadline.after_s(0)
        self._is_kept = True
        self._why_not = ""
        self._stop = threading.Event()
        name = f"remote segments of {config.cluster.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Let the thread end soon."""
        self._stop.set()

    def stop(self, within_s: float) -> None:
        """Wait until the thread has ended; one that waits for a broker ends later by itself."""
        self.ask_to_stop()
        self._thread.join(within_s)

    def _run(self) -> None:
        while not self._stop.is_set():
            why_not = ""
            try:
                topic = segment_topic(self._config)
                why_not = topic.access.why_not_read
                if topic.access is ReadAccess.ALLOWED:
                    self._say(why_not)
                    self._read(topic.topic_id)
                    continue
            except KafkaError as error:
                place = self._config.cluster.bootstrap
                why_not = f"cluster {place}: {clients.one_line(error, bootstrap=place)}"
            except (UserError, OSError) as error:
                why_not = str(error)
            self._say(why_not)
            self._stop.wait(LOOK_EVERY_S)

    def _say(self, why_not: str) -> None:
        """Note whether records can be read; log each cause once."""
        self.is_running = not why_not
        if why_not and why_not != self._why_not:
            log.warning("unavailable", what=TOPIC, why=why_not, without=_WITHOUT)
        elif self._why_not and not why_not:
            log.info("recovered", what=TOPIC)
        self._why_not = why_not

    def _read(self, topic_id: str) -> None:
        """Read on until stopped, or until the topic is another one or may not be read."""
        before = self._file.read() if self._position is None else self._position
        self._position = before.in_topic(topic_id)
        with closing(self._consumer()) as consumer:
            self._seek(consumer, self._position)
            look = Deadline.after_s(LOOK_WHILE_READING_EVERY_S)
            pause_s = 0.0
            while not self._stop.wait(pause_s):  # the consumer fetches meanwhile
                waits_ms = 0 if pause_s else _POLL_MS
                read = consumer.poll(timeout_ms=waits_ms, max_records=_RECORDS_A_POLL)
                pause_s = 0.0 if read else _PAUSE_S
                self._take(read)
                if look.is_over:
                    found = segment_topic(self._config)
                    if found.access is not ReadAccess.UNKNOWN and found != (
                        ReadAccess.ALLOWED, topic_id
                    ):  # fmt: skip
                        break
                    look = Deadline.after_s(LOOK_WHILE_READING_EVERY_S)
            self._keep_position(at_once=True)

    def _consumer(self) -> KafkaConsumer:
        of_cluster = self._config.cluster
        arguments: dict[str, Any] = {
            "group_id": None,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": _FETCH_WAIT_MS,
            "request_timeout_ms": _REQUEST_MS,
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
            **clients.arguments(of_cluster.bootstrap, of_cluster.client, "cluster"),
        }
        try:
            return KafkaConsumer(**arguments)
        except ValueError as error:
            raise UserError(f"cluster.client: {error}") from None

    def _seek(self, consumer: KafkaConsumer, position: Position) -> None:
        """Take every partition, at the position or at its first record."""
        numbers = consumer.partitions_for_topic(TOPIC) or ()
        consumer.assign([TopicPartition(TOPIC, number) for number in numbers])
        for place in consumer.assignment():
            offset = position.next_offsets.get(place.partition)
            if offset is None:
                consumer.seek_to_beginning(place)
            else:
                consumer.seek(place, offset)

    def _take(self, read: dict[TopicPartition, Sequence[Any]]) -> None:
        """Send what the records say; the position is behind them once it has arrived."""
        assert self._position is not None
        records = [
            Record(place.topic, place.partition, r.offset, r.key, r.value, r.timestamp)
            for place, each in read.items()
            for r in each
        ]
        if records:
            self._outbox.send(self._messages.of(records))
            behind = {place.partition: each[-1].offset + 1 for place, each in read.items()}
            offsets = self._position.next_offsets | behind
            self._position = Position(self._position.topic_id, offsets)
            self._is_kept = False
        self._keep_position()

    def _keep_position(self, *, at_once: bool = False) -> None:
        if self._is_kept or not (at_once or self._keep.is_over):
            return
        assert self._position is not None
        self._file.write(self._position)
        self._is_kept, self._keep = True, Deadline.after_s(KEEP_EVERY_S)
