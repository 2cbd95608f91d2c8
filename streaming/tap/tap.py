"""``kafka-twin tap``: follows brokers' logs and writes observations to the bus.

The tap never waits for the bus, and its memory is bounded: what cannot be sent is dropped, and
counted.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import structlog

from streaming.bus import bus_topics, record
from streaming.bus.arrow import use_little_memory
from streaming.bus.connection import BusError
from streaming.bus.sender import Sender
from streaming.bus.shards import await_shards
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from streaming.runtime.errors import UserError
from streaming.runtime.liveness import touch_liveness_file
from streaming.runtime.program_metrics import served
from streaming.tap.broker_log import BrokerLogParser
from streaming.tap.broker_tap import BrokerTap, log_problem
from streaming.tap.counters import registry_of
from streaming.tap.encode import Deployment
from streaming.tap.sources import FileSource, LineSource, PipeSource
from streaming.tap.topic_ids import TopicIds

POLL_S: Final = 0.1
SEND_EVERY_S: Final = 0.5
SUMMARY_EVERY_S: Final = 60.0

_BUFFER_BYTES: Final = 16 << 20
_GIVE_UP_MS: Final = 10_000

log = structlog.get_logger("tap")


class TapError(UserError):
    """The tap cannot do what was asked."""


def run(
    config: Config,
    inputs: Sequence[tuple[int, str]],
    stop: threading.Event,
    *,
    zone: ZoneInfo | None = None,
    from_beginning: bool = False,
    metrics_port: int | None = None,
) -> None:
    """Follow logs until ``stop`` is set, or until standard input ends if it is the only input.

    Args:
        config: names the bus and the cluster.
        inputs: broker id and path of each log; "-" is standard input.
        stop: ends the tap in good order.
        zone: time zone of the logs; None for that of this machine.
        from_beginning: start with what the files contain already.
        metrics_port: serve the counters on this port; None for ``metrics.tap_port``.

    Raises:
        BusError, ConfigError, MetricsPortError, TapError: the tap cannot start.
    """
    use_little_memory()
    taps = _open(inputs, zone, from_beginning)
    with ExitStack() as stack:
        for tap in taps.values():
            for source in tap.sources:
                stack.callback(source.close)
        stack.enter_context(_metrics_served(config, taps, metrics_port))
        bus_topics.ensure_topics(config)
        known = await_shards(config, stop)
        if known is None:
            return
        config = known
        topic_ids = TopicIds(config)
        stack.callback(topic_ids.close)
        sender = stack.enter_context(
            Sender(config, buffer_bytes=_BUFFER_BYTES, give_up_ms=_GIVE_UP_MS)
        )
        log.info("running", brokers=sorted(taps), logs=len(inputs))
        _follow(config, list(taps.values()), topic_ids, sender, stop)
        with suppress(BusError):
            sender.flush(config.collector.deadline_ms)
    for tap in taps.values():
        tap.log_summary()
    log.info("stopped")


def _metrics_served(
    config: Config, taps: Mapping[int, BrokerTap], option: int | None
) -> AbstractContextManager[None]:
    registry, at = registry_of(taps, config.cluster.name), config.metrics
    if option is not None:
        return served(registry, at.host, option, "--metrics-port")
    return served(registry, at.host, at.tap_port, "metrics.tap_port")


def _open(
    inputs: Sequence[tuple[int, str]], zone: ZoneInfo | None, from_beginning: bool
) -> dict[int, BrokerTap]:
    """A tap for each broker, in the order of their ids."""
    if sum(path == "-" for _, path in inputs) > 1:
        raise TapError("standard input can be the log of one broker only")
    sources: dict[int, list[LineSource]] = {broker: [] for broker in sorted({b for b, _ in inputs})}
    for broker, path in inputs:
        sources[broker].append(
            PipeSource(sys.stdin.buffer)
            if path == "-"
            else FileSource(Path(path), from_beginning=from_beginning)
        )
    return {
        broker: BrokerTap(BrokerLogParser(broker, zone), of_broker)
        for broker, of_broker in sources.items()
    }


def _follow(
    config: Config,
    taps: Sequence[BrokerTap],
    topic_ids: TopicIds,
    sender: Sender,
    stop: threading.Event,
) -> None:
    next_send, next_summary = Deadline.after_s(SEND_EVERY_S), Deadline.after_s(SUMMARY_EVERY_S)
    problem = ""
    while True:
        has_lines = [tap.read() for tap in taps]  # a list: every tap has its turn
        is_last = stop.is_set() or all(tap.ended for tap in taps)
        if is_last:
            topic_ids.end_waiting()
        if is_last or next_send.is_over:
            for tap in taps:
                _send(config, tap, topic_ids, sender, flush=is_last)
            touch_liveness_file(config.health.folder, "tap")
            log_problem("topic names", problem, topic_ids.problem)
            problem = topic_ids.problem
            next_send = Deadline.after_s(SEND_EVERY_S)
        if next_summary.is_over:
            for tap in taps:
                tap.log_summary()
            next_summary = Deadline.after_s(SUMMARY_EVERY_S)
        if is_last:
            return
        if not any(has_lines):
            stop.wait(POLL_S)


def _send(
    config: Config, tap: BrokerTap, topic_ids: TopicIds, sender: Sender, *, flush: bool
) -> None:
    deployment = Deployment(config.cluster.name, config.bus.shards)
    topic, failures_before = bus_topics.topics(config).observations, sender.failures
    for shard, message in tap.messages(deployment, topic_ids.resolve, flush=flush):
        # Reading goes on while the bus is away: these rows would be outdated once it is back.
        with suppress(BusError):
            sender.send(topic, record.key(deployment.cluster, shard), message)
            tap.sent += 1
    tap.dropped["messages"] += sender.failures - failures_before
