"""The signals of ``BROKER_METRICS``, from what a broker's JMX exporter serves.

The series have the names of deploy/jmx/kafka.yml, whatever the exporter's rules (``metric_names``).
No clock, no I/O: text and two times in, numbers out. A signal that is not served, or not known yet,
is NaN and never 0:

* a rate needs two scrapes of the same process, since Kafka counts from its start;
* without a request since the last scrape a quantile is unknown, although Kafka keeps serving the
  last one;
* the mean of remote reads is that of the reads between two scrapes, for the same reason.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from streaming.collector.scraping.metric_names import (
    IDLE_NANOSECONDS,
    STARTED,
    Key,
    Rules,
    is_read,
    key_of,
)
from twin.tables.broker_columns import BROKER_METRICS

Samples = Mapping[Key, float]

_ABSENT: Final = math.nan
_LARGEST: Final = sys.float_info.max
_STARTED: Final = (STARTED,)

_GAUGES: Final[dict[str, tuple[Key, ...]]] = {
    "request_queue_size": (("kafka_request_queue_size",),),
    "fetch_purgatory_size": (("kafka_delayed_operations", "Fetch"),),
    "log_cleaner_dead_threads": (("kafka_log_cleaner_dead_threads",),),
    "remote_reader_queue_size": (
        ("kafka_remote_reader_queue_size",),
        ("kafka_remote_reader_before_4_2_queue_size",),
    ),
    "remote_reader_idle_ratio": (
        ("kafka_remote_reader_idle_ratio",),
        ("kafka_remote_reader_before_4_2_idle_ratio",),
    ),
}
"""Values taken unchanged, from the first series that is served."""

_SUMS: Final[dict[str, str]] = {"uncleanable_partitions": "kafka_log_dir_uncleanable_partitions"}
"""Sums over all series of the name."""

_IDLE: Final = ("kafka_request_handlers_idle_ratio",)
_IDLE_NANOSECONDS: Final = (IDLE_NANOSECONDS,)

_QUANTILES: Final[dict[str, tuple[Key, Key]]] = {
    signal: ((name, request, "0.99"), ("kafka_requests_total", request))
    for signal, name, request in (
        ("fetch_follower_p99_ms", "kafka_request_total_time_ms", "FetchFollower"),
        ("fetch_follower_local_p99_ms", "kafka_request_local_time_ms", "FetchFollower"),
        ("fetch_follower_queue_p99_ms", "kafka_request_queue_time_ms", "FetchFollower"),
        ("fetch_consumer_p99_ms", "kafka_request_total_time_ms", "FetchConsumer"),
    )
}
"""The quantile, and the number of requests since the start of the broker."""

_RATES: Final[dict[str, Key]] = {
    "remote_copy_errors_per_s": ("kafka_broker_remote_copy_errors_total",),
    "remote_delete_errors_per_s": ("kafka_broker_remote_delete_errors_total",),
    "remote_fetch_requests_per_s": ("kafka_broker_remote_fetch_requests_total",),
    "remote_fetch_bytes_per_s": ("kafka_broker_remote_fetch_bytes_total",),
    "remote_fetch_errors_per_s": ("kafka_broker_remote_fetch_errors_total",),
    "aux_state_builds_per_s": ("kafka_broker_aux_state_requests_total",),
    "aux_state_errors_per_s": ("kafka_broker_aux_state_errors_total",),
    "bytes_in_per_s": ("kafka_broker_bytes_in_total",),
    "bytes_out_per_s": ("kafka_broker_bytes_out_total",),
    "replication_bytes_in_per_s": ("kafka_broker_replication_bytes_in_total",),
    "replication_bytes_out_per_s": ("kafka_broker_replication_bytes_out_total",),
    "isr_shrinks_per_s": ("kafka_isr_shrinks_total",),
    "isr_expands_per_s": ("kafka_isr_expands_total",),
}

_LAGS: Final[dict[str, tuple[str, str]]] = {
    "remote_copy_lag_bytes": (
        "kafka_broker_remote_copy_lag_bytes",
        "kafka_topic_remote_copy_lag_bytes",
    ),
    "remote_copy_lag_segments": (
        "kafka_broker_remote_copy_lag_segments",
        "kafka_topic_remote_copy_lag_segments",
    ),
}
"""The sum over all topics, and the series of one.

Kafka keeps both. The sum less the internal topics costs a few lines where adding up the others
would cost one a topic.
"""

_READS: Final = ("kafka_remote_reads_total",)
_READ_MEAN_MS: Final = ("kafka_remote_read_mean_ms",)

_COUNTERS: Final = {
    _READS, _IDLE_NANOSECONDS, *_RATES.values(), *(count for _, count in _QUANTILES.values()),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scrape:
    """The series of one broker, and the time of the request on the monotonic clock."""

    at_s: float
    samples: Samples


@dataclass(frozen=True, slots=True)
class Served:
    """What an exporter serves, and by which rules."""

    samples: Samples
    rules: frozenset[Rules]


def served(text: str) -> Served:
    """The series that signals are computed from; values that are not numbers are left out.

    The last line of text that was cut off is ignored: it may lack digits.

    Raises:
        ValueError: one of these lines is not in Prometheus' text format.
    """
    lines = [line for line in text.split("\n")[:-1] if is_read(line)]
    samples: dict[Key, float] = {}
    rules: set[Rules] = set()
    for family in text_string_to_metric_families("\n".join(lines)):
        for sample in family.samples:
            key = key_of(sample.name, sample.labels)
            if key is not None and abs(sample.value) <= _LARGEST:  # NaN is left out too
                samples[key[0]] = float(sample.value)
                if sample.name != STARTED:
                    rules.add(key[1])
    return Served(samples, frozenset(rules))


def signals_of(now: Scrape, before: Scrape | None) -> dict[str, float]:
    """Every signal, by its name; NaN where it is absent.

    ``before`` is the last scrape of the same broker, however long ago, None if there was none.
    """
    if before is not None and not _is_same_process(now.samples, before.samples):
        before = None
    signals = {
        **{signal: _first(now.samples, keys) for signal, keys in _GAUGES.items()},
        **{signal: _sum(now.samples, name) for signal, name in _SUMS.items()},
        **{signal: _lag(now.samples, *names) for signal, names in _LAGS.items()},
        **{signal: _quantile(now, before, *keys) for signal, keys in _QUANTILES.items()},
        **{signal: _rate(now, before, key) for signal, key in _RATES.items()},
        "request_handlers_idle_ratio": _idle_ratio(now, before),
        "remote_read_mean_ms": _read_mean_ms(now.samples, before),
    }
    assert signals.keys() == set(BROKER_METRICS)
    return signals


def _is_same_process(now: Samples, before: Samples) -> bool:
    """Whether the broker has not restarted since: its counters restart from 0."""
    return now.get(_STARTED) == before.get(_STARTED) and all(
        now[key] >= before[key] for key in _COUNTERS if key in now and key in before
    )


def _first(now: Samples, keys: tuple[Key, ...]) -> float:
    return next((now[key] for key in keys if key in now), _ABSENT)


def _sum(now: Samples, name: str) -> float:
    values = [value for key, value in now.items() if key[0] == name]
    return sum(values) if values else _ABSENT


def _idle_ratio(now: Scrape, before: Scrape | None) -> float:
    """The idle ratio; exactly 0 means that the meter has not ticked yet, so it is unknown.

    Where the idle time is served in its place, it is the ratio between two scrapes.
    """
    if _IDLE in now.samples:
        return now.samples[_IDLE] or _ABSENT
    return min(_rate(now, before, _IDLE_NANOSECONDS) / 1e9, 1.0)


def _lag(now: Samples, whole: str, part: str) -> float:
    """The sum without internal topics, at least 0: the two are not read at the same instant."""
    internal = sum(value for key, value in now.items() if key[0] == part)
    return max(now[(whole,)] - internal, 0.0) if (whole,) in now else _ABSENT


def _quantile(now: Scrape, before: Scrape | None, quantile: Key, count: Key) -> float:
    count_before = before.samples.get(count, 0.0) if before is not None else 0.0
    is_fresh = now.samples.get(count, 0.0) > count_before
    return now.samples.get(quantile, _ABSENT) if is_fresh else _ABSENT


def _rate(now: Scrape, before: Scrape | None, key: Key) -> float:
    if before is None or key not in now.samples or key not in before.samples:
        return _ABSENT
    elapsed_s = now.at_s - before.at_s
    return (now.samples[key] - before.samples[key]) / elapsed_s if elapsed_s > 0 else _ABSENT


def _read_mean_ms(now: Samples, before: Scrape | None) -> float:
    if before is None or not {_READS, _READ_MEAN_MS} <= (now.keys() & before.samples.keys()):
        return _ABSENT
    was = before.samples
    reads = now[_READS] - was[_READS]
    took_ms = now[_READS] * now[_READ_MEAN_MS] - was[_READS] * was[_READ_MEAN_MS]
    return max(took_ms, 0.0) / reads if reads > 0 else _ABSENT
