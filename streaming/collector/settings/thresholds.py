"""KIP-1303's thresholds in the twin's own configuration, for a Kafka that has no such settings.

A topic's value overrides the cluster-wide one. A section for its exact name overrides one whose
pattern matches the whole name. Two patterns that set different values for a topic are an error,
since the file shows no order between them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Protocol

from streaming.collector.about import About
from streaming.collector.problem import Problem
from streaming.runtime.config import ConfigError, EligibilityConfig, TopicThreshold
from twin.tables.enums import NOT_SET

THRESHOLDS: Final = About("thresholds", "the thresholds of such topics")


class ThresholdSource(Protocol):
    """Where thresholds come from that change while the collector runs."""

    @property
    def problems(self) -> Sequence[Problem]:
        """Why they are not what the file says."""

    def read(self) -> EligibilityConfig | None:
        """The new thresholds; None if they have not changed since the last call."""


class ThresholdLookup:
    """Finds the thresholds of a topic."""

    def __init__(self, eligibility: EligibilityConfig) -> None:
        self.local_log_ms = eligibility.local_log_ms
        self.local_log_bytes = eligibility.local_log_bytes
        self._named = {t.name: t for t in eligibility.topics if t.name}
        self._patterns = [(re.compile(t.pattern), t) for t in eligibility.topics if t.pattern]

    def for_topic(self, topic: str) -> tuple[int, int]:
        """local_log_ms and local_log_bytes of a topic, NOT_SET where the cluster's value applies.

        Raises:
            ConfigError: two patterns that match it set different values.
        """
        sections = [t for pattern, t in self._patterns if pattern.fullmatch(topic)]
        if topic in self._named:
            sections.insert(0, self._named[topic])
        return (
            _one(topic, "local_log_ms", [(s, s.local_log_ms) for s in sections]),
            _one(topic, "local_log_bytes", [(s, s.local_log_bytes) for s in sections]),
        )


def _one(topic: str, key: str, candidates: list[tuple[TopicThreshold, int]]) -> int:
    """The value that applies; the section for the exact name, if any, comes first."""
    values = [(section, value) for section, value in candidates if value != NOT_SET]
    if not values:
        return NOT_SET
    first, value = values[0]
    if not first.name:
        for other, another in values[1:]:
            if another != value:
                raise ConfigError(
                    f"eligibility.topics: topic {topic} matches the patterns {first.pattern!r} and "
                    f"{other.pattern!r}, which set {key} to {value} and {another}; "
                    "name the topic itself, or make one pattern narrower"
                )
    return value
