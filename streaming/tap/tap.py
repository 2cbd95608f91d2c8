"""``kafka-twin tap``: follow brokers' logs and write what they tell to the bus.

Never waits for the bus and never grows without bound: what cannot be sent is dropped, and counted.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import structlog
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector
from twin.metrics import TAP_METRICS

from streaming import bus
from streaming.bus import BusError, Sender
from streaming.collector.columns import use_little_memory
from streaming.runtime.config import Config
from streaming.runtime.errors import UserError
from streaming.runtime.health import touch_liveness_file
from streaming.tap.names import Names
from streaming.tap.observing import Deployment, messages
from streaming.tap.reading import Reading
from streaming.tap.sources import FileSource, PipeSource, Source

POLL_S: Final = 0.1
SEND_EVERY_S: Final = 0.5
QUIET_S: Final = 1.0
"""After so long without a line what waits for a later one is told."""

MOST_ROWS: Final = 200_000
"""Rows of one broker that wait to be sent; beyond, they are dropped."""

_BUFFER_BYTES: Final = 16 << 20
_GIVE_UP_MS: Final = 10_000
_SUMMARY_S: Final = 60.0

log = structlog.get_logger("tap")


class TapError(UserError, RuntimeError):
    """The tap cannot do what was asked: one line."""


@dataclass(slots=True)
class Tapped:
    """One broker: its logs, what they told, and how that went."""

    reading: Reading
    sources: list[Source] = field(default_factory=list)
    rows: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    heard_at_s: float = field(default_factory=time.monotonic)
    quiet: bool = True
    problems: dict[int, str] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Nothing more will come of it."""
        return all(source.ended for source in self.sources)

    @property
    def skipped_bytes(self) -> int:
        """What was not read, since it came faster than it could be."""
        return sum(source.skipped_bytes for source in self.sources)


def run(
    config: Config, inputs: Sequence[tuple[int, str]], *, zone: ZoneInfo | None = None,
    from_beginning: bool = False, metrics_port: int | None = None,
) -> None:  # fmt: skip
    """Follow the logs until SIGTERM or SIGINT, or until standard input ends.

    Args:
        config: whose bus and cluster.
        inputs: broker id and path of a log, "-" for standard input.
        zone: of the logs' times; this machine's if None.
        from_beginning: read what the files have already.
        metrics_port: serve the counters on this port of 127.0.0.1.

    Raises:
        BusError, ConfigError, TapError: it cannot start; one line each.
    """
    use_little_memory()
    tapped = _opened(inputs, zone, from_beginning)
    with contextlib.ExitStack() as stack:
        stop = stack.enter_context(_stopped_by_signal())
        bus.ensure_topics(config)
        bus.check_shards(config)
        if metrics_port is not None:
            stack.enter_context(_served(tapped, config.cluster.name, metrics_port))
        names = Names(config)
        stack.callback(names.close)
        sender = stack.enter_context(
            Sender(config, buffer_bytes=_BUFFER_BYTES, give_up_ms=_GIVE_UP_MS)
        )
        for one in tapped.values():
            for source in one.sources:
                stack.callback(source.close)
        log.info("running", brokers=sorted(tapped), logs=len(inputs))
        _follow(config, tapped, names, sender, stop)
        with contextlib.suppress(BusError):
            sender.flush(config.collector.deadline_ms)
    _sum_up(tapped)
    log.info("stopped")


def _opened(
    inputs: Sequence[tuple[int, str]], zone: ZoneInfo | None, from_beginning: bool
) -> dict[int, Tapped]:
    if sum(path == "-" for _, path in inputs) > 1:
        raise TapError("standard input can be the log of one broker only")
    tapped: dict[int, Tapped] = {}
    for broker, path in inputs:
        one = tapped.setdefault(broker, Tapped(Reading(broker, zone)))
        one.sources.append(
            PipeSource(sys.stdin.buffer)
            if path == "-"
            else FileSource(Path(path), from_beginning=from_beginning)
        )
    return tapped


def _follow(
    config: Config, tapped: dict[int, Tapped], names: Names, sender: Sender, stop: threading.Event
) -> None:
    sent_at, summed_up_at, told = time.monotonic(), time.monotonic(), ""
    while True:
        busy = [_read(one) for one in tapped.values()]  # all of them, each time
        over = stop.is_set() or all(one.ended for one in tapped.values())
        now = time.monotonic()
        if over or now - sent_at >= SEND_EVERY_S:
            for one in tapped.values():
                _send(config, one, names, sender, rest=over)
            touch_liveness_file(config.health.folder, "tap")
            sent_at = now
            if names.problem != told:
                told = names.problem
                log.warning("missing", what="topic names", why=told or "there again")
        if now - summed_up_at >= _SUMMARY_S:
            _sum_up(tapped)
            summed_up_at = now
        if over:
            return
        if not any(busy):
            stop.wait(POLL_S)


def _read(one: Tapped) -> bool:
    """Read what is there; true if there was anything."""
    heard = False
    for i, source in enumerate(one.sources):
        lines = source.lines()
        if source.gap:
            source.gap = False
            one.reading.missed()
        for line in lines:
            one.reading.take(line)
        heard |= bool(lines)
        if source.problem != one.problems.get(i, ""):
            one.problems[i] = source.problem
            log.warning("missing", broker=one.reading.broker, why=source.problem or "there again")
    if heard:
        one.heard_at_s, one.quiet = time.monotonic(), False
    return heard


def _send(config: Config, one: Tapped, names: Names, sender: Sender, *, rest: bool) -> None:
    reading = one.reading
    if rest or (not one.quiet and time.monotonic() - one.heard_at_s >= QUIET_S):
        reading.rest()
        one.quiet = True
    for rows in (reading.fetches, reading.moves, reading.starts):
        if len(rows) > MOST_ROWS:
            one.dropped["rows"] += len(rows) - MOST_ROWS
            del rows[: len(rows) - MOST_ROWS]
    for kind, rows in (("fetches", reading.fetches), ("isr_changes", reading.moves),
                       ("tier_starts", reading.starts)):  # fmt: skip
        one.rows[kind] += len(rows)
    of = Deployment(config.cluster.name, config.bus.shards)
    topic, before = bus.topics(config).observations, sender.failures
    for shard, message in messages(of, reading, names.of, one.dropped):
        # The bus away is no reason to stop reading: what it misses is old when it is back.
        with contextlib.suppress(BusError):
            sender.send(topic, bus.key(of.cluster, shard), message)
    one.dropped["messages"] += sender.failures - before


def _sum_up(tapped: dict[int, Tapped]) -> None:
    for broker, one in sorted(tapped.items()):
        log.info(
            "tapped",
            broker=broker,
            lines=one.reading.lines,
            rows=dict(one.rows),
            refused=dict(one.reading.refused),
            dropped={name: count for name, count in one.dropped.items() if count},
            skipped_bytes=one.skipped_bytes,
        )


class _Counters(Collector):
    """What the tap counts, at each scrape."""

    def __init__(self, tapped: dict[int, Tapped], cluster: str) -> None:
        self._tapped, self._cluster = tapped, cluster

    def collect(self) -> Iterator[CounterMetricFamily]:
        families = {
            m.name: CounterMetricFamily(m.name.removesuffix("_total"), m.help,
                                        labels=("cluster", *m.labels))
            for m in TAP_METRICS
        }  # fmt: skip
        for number, one in self._tapped.items():
            own = [self._cluster, str(number)]
            families["kafka_twin_tap_lines_total"].add_metric(own, one.reading.lines)
            families["kafka_twin_tap_skipped_bytes_total"].add_metric(own, one.skipped_bytes)
            for name, counts in (("rows", one.rows), ("refused", one.reading.refused),
                                 ("dropped", one.dropped)):  # fmt: skip
                for value, count in sorted(counts.items()):
                    families[f"kafka_twin_tap_{name}_total"].add_metric([*own, value], count)
        yield from families.values()


@contextlib.contextmanager
def _served(tapped: dict[int, Tapped], cluster: str, port: int) -> Iterator[None]:
    registry = CollectorRegistry()
    registry.register(_Counters(tapped, cluster))
    try:
        server, thread = start_http_server(port, addr="127.0.0.1", registry=registry)
    except OSError as error:
        raise TapError(f"port {port} cannot be used: {error.strerror}") from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def _stopped_by_signal() -> Iterator[threading.Event]:
    stop = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
