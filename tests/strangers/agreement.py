"""Waits until Kafka is at rest, and compares the twin with it two cycles later."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from streaming.lab.scripts.stage import ScriptFailed
from streaming.runtime.deadline import Deadline
from tests.cluster.broker_client import Key
from tests.strangers.judge import Partitions, differences, false_risks
from tests.strangers.kafka_view import KafkaView, Offsets, read
from tests.strangers.setup import Stranger

REST_WITHIN_S: Final = 180.0
CLOSED_WITHIN_S: Final = 90.0
"""The longest time for which a risk stays open after its condition has gone is a minute."""

Reading = tuple[KafkaView, Mapping[Key, Offsets]]


def disagreements(stranger: Stranger) -> list[str]:
    """Where the twin differs from Kafka, and its false risks, a line each.

    Raises:
        ScriptFailed: Kafka does not come to rest, or the twin observes nothing.
    """
    before, partitions, summary, after = _at_rest(stranger)
    lines = differences(before, partitions, summary, after[1])
    deadline = Deadline.after_s(CLOSED_WITHIN_S)
    while wrong := false_risks(before[0], after[1], partitions, stranger.lost):
        if deadline.is_over:
            break
        before, partitions, _, after = _at_rest(stranger)
    return lines + wrong


def _at_rest(stranger: Stranger) -> tuple[Reading, Partitions, dict[str, Any], Reading]:
    """Kafka before and after two cycles in which it did not change, and the API between them."""
    deadline = Deadline.after_s(REST_WITHIN_S)
    before = _read(stranger, deadline)
    while True:
        partitions = _two_cycles_later(stranger)
        summary = stranger.get("summary")
        after = _read(stranger, deadline)
        if before[0] == after[0]:
            return before, partitions, summary, after
        if deadline.is_over:
            raise ScriptFailed(f"Kafka is not at rest after {REST_WITHIN_S:.0f} s")
        before = after


def _two_cycles_later(stranger: Stranger) -> Partitions:
    """The partitions of the API, all observed in the second cycle from now or later."""
    at_ms = time.time_ns() // 1_000_000 + stranger.config.collector.interval_ms
    found: Partitions = stranger.until(
        lambda: _observed_since(stranger, at_ms), REST_WITHIN_S, "the twin observes nothing"
    )
    return found


def _observed_since(stranger: Stranger, at_ms: int) -> Partitions:
    """The partitions of the API if every one was observed since then, else none."""
    partitions = stranger.partitions()
    is_new = partitions and all((p["observed_at_ms"] or 0) >= at_ms for p in partitions.values())
    return partitions if is_new else {}


def _read(stranger: Stranger, deadline: Deadline) -> Reading:
    """A reading of Kafka; again while leaders move."""
    while True:
        try:
            return read(stranger.cluster)
        except (OSError, AssertionError, KeyError) as error:
            if deadline.is_over:
                raise ScriptFailed(f"Kafka cannot be read: {error}") from error
            stranger.pause(0.5)
