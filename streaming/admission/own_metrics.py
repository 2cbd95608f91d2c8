"""Metrics that the admission webhook serves about itself (``metrics.admission_port``)."""

from __future__ import annotations

from typing import Final

from streaming.runtime.exposition.build import build_info
from twin.declarations.declare import Metric

REVIEWS: Final = Metric(
    "admission_reviews",
    "Evictions and deletions of broker pods that were judged, by outcome: admitted, refused, "
    "unknown_admitted, unknown_refused, or allowed by annotation.",
    type="counter",
    labels=("outcome",),
)
REVIEW_SECONDS: Final = Metric(
    "admission_review_duration_seconds", "Time until a review was answered.", type="histogram"
)

BUILD: Final = build_info("admission")

OWN: Final = (BUILD, REVIEWS, REVIEW_SECONDS)
