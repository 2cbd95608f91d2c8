"""Metrics that ``kafka-twin tap --metrics-port`` serves."""

from __future__ import annotations

from typing import Final

from twin.declare import Metric

OWN: Final = (
    Metric(
        "tap_lines",
        "Lines that were read from the broker's logs.",
        labels=("broker",),
        type="counter",
    ),
    Metric(
        "tap_rows",
        "Rows that were made from the broker's logs and encoded for the bus, by table.",
        labels=("broker", "table"),
        type="counter",
    ),
    Metric(
        "tap_refused",
        "Lines that have the form of a known kind and cannot be read, by reason.",
        labels=("broker", "reason"),
        type="counter",
    ),
    Metric(
        "tap_dropped",
        "What was not sent, by what it is: rows, rows of an unknown_topic, messages.",
        labels=("broker", "what"),
        type="counter",
    ),
    Metric(
        "tap_skipped_bytes",
        "Bytes of the broker's logs that were skipped because lines came too fast.",
        labels=("broker",),
        type="counter",
    ),
)
