"""Brokers: which are registered, answer and are fenced, and what they measure themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from twin.declarations.declare import Metric, Occurrence, event, gauge
from twin.declarations.results import ByBroker
from twin.declarations.signature import Cycle, Earlier, parameters
from twin.declarations.table import UNKNOWN, Bool
from twin.tables.state import STALE_METRICS_MS, BrokerMetrics, Brokers

_MS: Final = 1 / 1000

SILENT_MS: Final = 10_000
"""A broker is called silent once it has not answered for two cycles of the default interval."""


def is_silent(brokers: Brokers, now_ms: int) -> Bool:
    """[B] it has not answered for more than SILENT_MS; also if it never did."""
    return ~brokers.answered & (now_ms - brokers.answered_at_ms > SILENT_MS)


# ---------------------------------------------------------------- events


@event(
    "broker_registered", "broker_unregistered", "broker_fenced", "broker_unfenced",
    "broker_answers", "broker_silent", per="broker",
)  # fmt: skip
def brokers_changed(was: Earlier[Brokers], now: Brokers) -> Iterator[Occurrence]:
    """Brokers that came, went, were fenced, or stopped answering."""
    if not len(was.broker) or now is was:
        return
    compared = ("broker", "fenced", "answered")
    if all(np.array_equal(getattr(was, name), getattr(now, name)) for name in compared):
        return
    for broker in np.setdiff1d(now.broker, was.broker).tolist():
        yield _occurrence(broker, "broker_registered", "registered")
    for broker in np.setdiff1d(was.broker, now.broker).tolist():
        yield _occurrence(broker, "broker_unregistered", "is no longer registered")
    both, old, new = np.intersect1d(was.broker, now.broker, return_indices=True)
    for i, broker in enumerate(both.tolist()):
        before, after = int(was.fenced[old[i]]), int(now.fenced[new[i]])
        if before != after and UNKNOWN not in (before, after):
            if after:
                yield _occurrence(broker, "broker_fenced", "was fenced: it leads nothing")
            else:
                yield _occurrence(broker, "broker_unfenced", "is unfenced again")
        if was.answered[old[i]] != now.answered[new[i]]:
            if now.answered[new[i]]:
                yield _occurrence(broker, "broker_answers", "answers again")
            else:
                yield _occurrence(broker, "broker_silent", "does not answer in time")


@event("remote_reads_began", "remote_reads_ended", per="broker")
def remote_reads_changed(was: Earlier[BrokerMetrics], now: BrokerMetrics) -> Iterator[Occurrence]:
    """Brokers that began or ceased to read from remote storage for consumers."""
    both, old, new = np.intersect1d(was.broker, now.broker, return_indices=True)
    before = was.remote_fetch_requests_per_s[old]
    after = now.remote_fetch_requests_per_s[new]
    for i in np.flatnonzero((after > 0) & ~(before > 0)).tolist():
        text = f"reads from remote storage for consumers: {after[i]:.3g} requests/s"
        yield _occurrence(int(both[i]), "remote_reads_began", text)
    for i in np.flatnonzero((before > 0) & (after == 0)).tolist():
        yield _occurrence(int(both[i]), "remote_reads_ended", "reads from its own disk again")


def _occurrence(broker: int, kind: str, text: str) -> Occurrence:
    return Occurrence(f"broker {broker} {text}", kind=kind, broker=broker)


# ---------------------------------------------------------------- exported


@gauge(
    "info",
    "1 for every broker that is registered, or may be: Kafka before 4.0 does not list fenced ones.",
    level="broker",
    labels=("host", "kafka_version"),
    combine="newest",
)
def info(brokers: Brokers) -> Mapping[tuple[str, str], ByBroker]:
    """A 1 for each broker, with its address and its Kafka's release as labels."""
    rows: dict[tuple[str, str], list[int]] = {}
    facts = zip(brokers.host.tolist(), brokers.kafka_version.tolist(), strict=True)
    for row, fact in enumerate(facts):
        rows.setdefault(fact, []).append(row)
    return {fact: ByBroker(brokers.broker[of_fact]) for fact, of_fact in rows.items()}


@gauge(
    "answered",
    "1 if the broker answered the newest cycle in time, else 0.",
    level="broker",
    combine="newest",
)
def answered(brokers: Brokers) -> ByBroker:
    """The answers of every registered broker."""
    return ByBroker(brokers.broker, brokers.answered.astype(np.int64))


@gauge(
    "fenced",
    "1 if the controller has fenced the broker, else 0.",
    level="broker",
    combine="newest",
)
def fenced(brokers: Brokers) -> ByBroker:
    """Brokers for which that is unknown have no series."""
    is_known = brokers.fenced != UNKNOWN
    return ByBroker(brokers.broker[is_known], brokers.fenced[is_known].astype(np.int64))


@gauge(
    "log_dir_usable_bytes",
    "Free space of the broker's log volumes.",
    level="broker",
    combine="newest",
)
def log_dir_usable_bytes(brokers: Brokers) -> ByBroker:
    """Brokers for which that is unknown have no series."""
    is_known = brokers.log_dir_usable_bytes != UNKNOWN
    return ByBroker(brokers.broker[is_known], brokers.log_dir_usable_bytes[is_known])


@gauge(
    "metrics_age_seconds",
    "Seconds since the broker's JMX exporter was last scraped, at the newest cycle.",
    level="broker",
    combine="newest",
)
def metrics_age_seconds(metrics: BrokerMetrics, cycle: Cycle) -> ByBroker:
    """Brokers without an exporter have no series."""
    age_ms = np.maximum(cycle.observed_at_ms - metrics.measured_at_ms, 0)
    return ByBroker(metrics.broker, age_ms * _MS)


def _measured(column: str, name: str, help_text: str, scale: float = 1) -> Metric:
    def compute(metrics: BrokerMetrics, cycle: Cycle) -> ByBroker:
        values = getattr(metrics, column)
        recent = cycle.observed_at_ms - metrics.measured_at_ms <= STALE_METRICS_MS
        is_measured = recent & ~np.isnan(values)
        return ByBroker(metrics.broker[is_measured], values[is_measured])

    reported: Callable[..., ByBroker] = compute
    return Metric(
        name, help_text, "broker", combine="newest", scale=scale, compute=reported,
        reads=parameters(compute),
    )  # fmt: skip


METRICS: Final = (
    _measured(
        "fetch_follower_p99_ms", "fetch_follower_p99_seconds",
        "99th percentile of the total time of followers' fetches, as the broker measures it.", _MS,
    ),
    _measured(
        "fetch_follower_local_p99_ms", "fetch_follower_local_p99_seconds",
        "99th percentile of the time the broker worked on followers' fetches, as it measures it.",
        _MS,
    ),
    _measured(
        "fetch_follower_queue_p99_ms", "fetch_follower_queue_p99_seconds",
        "99th percentile of the time followers' fetches waited for a request handler, as the "
        "broker measures it.",
        _MS,
    ),
    _measured(
        "request_handlers_idle_ratio", "request_handlers_idle_ratio",
        "Share of time in which the broker's request handlers are idle.",
    ),
    _measured(
        "request_queue_size", "request_queue_size",
        "Requests that wait for a request handler of the broker.",
    ),
    _measured(
        "remote_copy_lag_bytes", "remote_copy_lag_bytes",
        "Bytes of closed segments that the broker reports as not uploaded, without internal "
        "topics.",
    ),
    _measured(
        "remote_copy_errors_per_s", "remote_copy_errors_per_second",
        "Failed uploads to remote storage a second, as the broker measures it.",
    ),
    _measured(
        "remote_delete_errors_per_s", "remote_delete_errors_per_second",
        "Failed deletions of segments in remote storage a second, as the broker measures it.",
    ),
    _measured(
        "remote_fetch_requests_per_s", "remote_fetch_requests_per_second",
        "Reads from remote storage for consumers a second, as the broker measures it.",
    ),
    _measured(
        "remote_fetch_bytes_per_s", "remote_fetch_bytes_per_second",
        "Bytes read from remote storage for consumers a second, as the broker measures it.",
    ),
    _measured(
        "remote_fetch_errors_per_s", "remote_fetch_errors_per_second",
        "Failed reads from remote storage for consumers a second, as the broker measures it.",
    ),
    _measured(
        "remote_reader_queue_size", "remote_reader_queue_size",
        "Reads from remote storage that wait for a reader thread of the broker.",
    ),
    _measured(
        "remote_reader_idle_ratio", "remote_reader_idle_ratio",
        "Share of time in which the broker's remote storage reader threads are idle.",
    ),
    _measured(
        "aux_state_builds_per_s", "aux_state_builds_per_second",
        "Attempts a second of the broker's followers to build their state from remote storage "
        "(KIP-1023).",
    ),
    _measured(
        "aux_state_errors_per_s", "aux_state_errors_per_second",
        "Failed attempts a second of the broker's followers to build their state from remote "
        "storage.",
    ),
    _measured(
        "log_cleaner_dead_threads", "log_cleaner_dead_threads",
        "Threads of the broker's log cleaner that have ended by an error.",
    ),
    _measured(
        "uncleanable_partitions", "uncleanable_partitions",
        "Partitions that the broker's log cleaner has given up.",
    ),
)  # fmt: skip
"""The columns of broker metrics that are exported. The others serve rules and the API."""
