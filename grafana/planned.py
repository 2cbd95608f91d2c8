"""Metrics the dashboards use that ``twin.metrics`` does not declare yet.

Temporary: each goes as soon as the twin exports it, and a test fails until it does.
"""

from __future__ import annotations

from typing import Final

from twin.metrics import Metric


def _gauge(name: str, *labels: str) -> Metric:
    return Metric(f"kafka_twin_{name}", "gauge", "", labels)


PLANNED: Final = (
    _gauge("topic_join_bytes", "topic", "feature"),
    _gauge("remote_log_bytes"),
    _gauge("orphan_segments"),
    _gauge("orphan_bytes"),
    _gauge("dangling_uploads"),
    _gauge("tier_gaps"),
    _gauge("tier_overlaps"),
    _gauge("segment_transitions_refused"),
    _gauge("topic_remote_log_bytes", "topic"),
    _gauge("topic_orphan_bytes", "topic"),
)
