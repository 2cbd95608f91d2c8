"""The two text formats of Prometheus, and which of them a scraper asks for.

They differ in the lines about a metric: OpenMetrics names a counter without ``_total``, may say
since when it counts, and ends with a line of its own. Lines of samples are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from twin.declarations.declare import Metric

_OPEN_METRICS_TYPE: Final = "application/openmetrics-text"


@dataclass(frozen=True, slots=True)
class Format:
    """A text format."""

    content_type: str
    end: bytes
    is_open_metrics: bool

    def header(self, metric: Metric) -> bytes:
        """HELP and TYPE."""
        name, text = metric.series_name, metric.help.replace("\\", r"\\")
        if self.is_open_metrics:
            name, text = name.removesuffix("_total"), text.replace('"', r"\"")
        return f"# HELP {name} {text}\n# TYPE {name} {metric.type}\n".encode()


PLAIN: Final = Format("text/plain; version=0.0.4; charset=utf-8", b"", False)
OPEN_METRICS: Final = Format(
    f"{_OPEN_METRICS_TYPE}; version=1.0.0; charset=utf-8", b"# EOF\n", True
)
FORMATS: Final = (PLAIN, OPEN_METRICS)


def accepted(accept: str) -> Format:
    """The format that a header ``Accept`` asks for: OpenMetrics 1.0 if it is named, else plain.

    Prometheus names it first, with the highest quality; who does not know it does not name it.
    """
    for each in accept.split(","):
        media_type, *parameters = (part.strip().lower() for part in each.split(";"))
        if media_type != _OPEN_METRICS_TYPE or "q=0" in parameters:
            continue
        versions = [part for part in parameters if part.startswith("version=")]
        if versions in ([], ["version=1.0.0"]):
            return OPEN_METRICS
    return PLAIN
