"""Metrics that the admission webhook serves about itself (``metrics.admission_port``)."""

from __future__ import annotations

from typing import Final

from streaming.runtime.exposition.build import build_info, declared
from twin.declarations.declare import Metric

BUILD: Final = build_info("admission")
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

OWN: Final = declared(globals())
