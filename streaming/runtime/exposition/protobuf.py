"""Prometheus' protobuf format, the only one that has native histograms.

Prometheus requests it if its configuration enables native histograms. No small library has these
messages, so this module encodes the few fields that are needed. Source, also of the numbers of
fields: io/prometheus/client/metrics.proto of prometheus/client_model 0.6.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from streaming.runtime.exposition.native import SCHEMA, ZERO_THRESHOLD, NativeHistogram

CONTENT_TYPE: Final = (
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
)

_TYPES: Final = {"counter": 0, "gauge": 1, "unknown": 3, "histogram": 4}
_VALUE_FIELDS: Final = {"counter": 3, "gauge": 2, "unknown": 5}
"""The field of a metric that has its value, by type."""

_Labels = frozenset[tuple[str, str]]


def is_asked_for(accept: str) -> bool:
    """Whether a header ``Accept`` names the format."""
    return "application/vnd.google.protobuf" in accept and "encoding=delimited" in accept


def encoded(registry: Collector, native: Mapping[tuple[str, str], NativeHistogram]) -> bytes:
    """All families of a registry, each with its length before it.

    Args:
        registry: of the metrics.
        native: the native histogram of a histogram, by its name and the label ``cluster``.
    """
    messages = (_family(each, native) for each in registry.collect())
    return b"".join(_varint(len(message)) + message for message in messages)


def _family(family: Family, native: Mapping[tuple[str, str], NativeHistogram]) -> bytes:
    kind = family.type if family.type in _TYPES else "unknown"
    name = f"{family.name}_total" if kind == "counter" else family.name
    fields = [_text(1, name), _text(2, family.documentation), _number(3, _TYPES[kind])]
    for labels, samples in _by_labels(family.samples).items():
        metric = b"".join(
            _message(1, _text(1, key) + _text(2, value)) for key, value in sorted(labels)
        )
        if kind == "histogram":
            key = family.name, dict(labels).get("cluster", "")
            metric += _message(7, _histogram(samples, native.get(key)))
        else:
            value = next(s.value for s in samples if not s.name.endswith("_created"))
            content = _double(1, value)
            if kind == "counter":
                content += _created(3, samples)
            metric += _message(_VALUE_FIELDS[kind], content)
        fields.append(_message(4, metric))
    return b"".join(fields)


def _by_labels(samples: Iterable[Sample]) -> dict[_Labels, list[Sample]]:
    """The samples of each metric of a family: those of a histogram differ in ``le`` alone."""
    found: dict[_Labels, list[Sample]] = {}
    for sample in samples:
        labels = frozenset((k, v) for k, v in sample.labels.items() if k != "le")
        found.setdefault(labels, []).append(sample)
    return found


def _histogram(samples: Iterable[Sample], native: NativeHistogram | None) -> bytes:
    samples, fields = [*samples], []
    for sample in samples:
        if sample.name.endswith("_count"):
            fields.append(_number(1, int(sample.value)))
        elif sample.name.endswith("_sum"):
            fields.append(_double(2, sample.value))
        elif sample.name.endswith("_bucket"):
            bound = float(sample.labels["le"])
            fields.append(_message(3, _number(1, int(sample.value)) + _double(2, bound)))
    if native is not None:
        fields += _native(native)
    return b"".join([*fields, _created(15, samples)])


def _native(native: NativeHistogram) -> Iterator[bytes]:
    zeros, spans, deltas = native.buckets()
    yield _number(5, _zigzag(SCHEMA)) + _double(6, ZERO_THRESHOLD) + _number(7, zeros)
    # A histogram without a bucket needs a span, or it would be taken for a classic one.
    for distance, length in spans or [(0, 0)]:
        yield _message(12, _number(1, _zigzag(distance)) + _number(2, length))
    for delta in deltas:
        yield _number(13, _zigzag(delta))


def _created(field: int, samples: Iterable[Sample]) -> bytes:
    for sample in samples:
        if sample.name.endswith("_created"):
            nanoseconds = round(sample.value * 1e9)
            seconds, rest = divmod(nanoseconds, 1_000_000_000)
            return _message(field, _number(1, seconds) + _number(2, rest))
    return b""


# ---------------------------------------------------------------- fields


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _double(field: int, number: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", number)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())
