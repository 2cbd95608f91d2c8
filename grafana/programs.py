"""Panels about collector, query, archive and taps, from the metrics that these programs serve."""

from __future__ import annotations

from typing import Final

from grafana.panels import Look, PanelQuery, lines
from grafana.queries import Scope, per_second
from grafana.variables import Json

_HERE: Final = Scope()
_SECONDS: Final = Look("s", lowest=0)
_PER_SECOND: Final = Look("ops", lowest=0)
_WHOLE: Final = Look("locale", lowest=0, decimals=0)
_UNSERVED: Final = "No {0} is scraped; metrics.{0}_port is where one serves this"


def collector() -> tuple[Json, ...]:
    """Panels of the collector: cycles, missed ones, and problems."""
    unserved = _UNSERVED.format("collector")
    problems = _HERE.latest("collector_problems", "source")
    return (
        _durations("Time of a cycle", "collector_cycle_duration_seconds", unserved),
        lines(
            "Cycles lost",
            "Cycles that were left out because the one before took too long, and cycles that the "
            "bus did not take.",
            [
                PanelQuery(_increase("collector_overruns_total"), "left out"),
                PanelQuery(_increase("collector_observations_unsent_total"), "not sent"),
            ],
            _WHOLE,
            stacked=True,
            empty=unserved,
        ),
        lines(
            "Problems by source",
            "Problems of the collector's newest cycle; its log has brokers and reasons.",
            [PanelQuery(f"{problems} > 0", "{{source}}")],
            _WHOLE,
            stacked=True,
            empty="No problem",
        ),
    )


def query() -> tuple[Json, ...]:
    """Panels of the query: batches, and why none ends."""
    unserved = _UNSERVED.format("query")
    return (
        _durations("Time of a batch", "query_batch_duration_seconds", unserved),
        lines(
            "Messages of a batch",
            "Messages of the observations topic in a batch; a cycle has some for each shard.",
            [
                PanelQuery(
                    f"{per_second(_HERE, 'query_observations_read_total')} / "
                    f"{per_second(_HERE, 'query_batches_total')}",
                    "messages",
                )
            ],
            _WHOLE,
            empty=unserved,
        ),
        lines(
            "No batch ends",
            "1 while no batch has ended for three cycles, by the reason.",
            [PanelQuery(f"{_HERE.latest('query_stalled', 'reason')} > 0", "{{reason}}")],
            _WHOLE,
            stacked=True,
            empty="Batches end",
        ),
    )


def archive() -> tuple[Json, ...]:
    """Panels of the archive: how far behind it is, batches, and the sizes of its tables."""
    unserved = _UNSERVED.format("archive")
    newest = _HERE.latest("archive_newest_cycle_timestamp_seconds")
    return (
        lines(
            "Archive behind",
            "Age of the newest cycle in the archive: a minute or two while it runs.",
            [PanelQuery(f"time() - {newest}", "behind")],
            _SECONDS,
            empty=unserved,
        ),
        _durations("Time of a batch of the archive", "archive_batch_duration_seconds", unserved),
        lines(
            "Size of the archive",
            "Bytes of each table, at the beginning of the hour.",
            [PanelQuery(_HERE.latest("archive_bytes", "table"), "{{table}}")],
            Look("bytes", lowest=0),
            stacked=True,
            empty=f"{unserved}, or no hour has ended yet",
        ),
        lines(
            "New gaps of the archive",
            "Times at which cycles were no longer on the bus. What they had stays unknown.",
            [PanelQuery(_increase("archive_gaps_total"), "gaps")],
            _WHOLE,
            empty=unserved,
        ),
    )


def tap() -> tuple[Json, ...]:
    """Panels of taps: lines read, waiting rows, and dropped rows."""
    unserved = _UNSERVED.format("tap")
    return (
        lines(
            "Lines read by taps",
            "Lines a second of each broker's logs.",
            [PanelQuery(per_second(_HERE, "tap_lines_total", "broker"), "broker {{broker}}")],
            _PER_SECOND,
            stacked=True,
            empty=unserved,
        ),
        lines(
            "Not yet read by taps",
            "Bytes of each broker's log files that no tap has read, and bytes that were skipped; "
            "beyond 256 MiB lines are.",
            [
                PanelQuery(_HERE.latest("tap_behind_bytes", "broker"), "broker {{broker}}"),
                PanelQuery(_increase("tap_skipped_bytes_total"), "skipped"),
            ],
            Look("bytes", lowest=0),
            empty=unserved,
        ),
        lines(
            "Lost by taps",
            "Lines that could not be parsed, and what was not sent, a second. Bytes that were "
            "skipped are in the panel beside it.",
            [
                PanelQuery(per_second(_HERE, "tap_refused_total", "reason"), "refused: {{reason}}"),
                PanelQuery(per_second(_HERE, "tap_dropped_total", "what"), "dropped: {{what}}"),
            ],
            _PER_SECOND,
            empty=unserved,
        ),
    )


def _durations(title: str, name: str, empty: str) -> Json:
    total, count = (per_second(_HERE, f"{name}_{part}") for part in ("sum", "count"))
    buckets = per_second(_HERE, f"{name}_bucket", "le")
    return lines(
        title,
        "Mean and 99th percentile.",
        [
            PanelQuery(f"{total} / {count}", "average"),
            PanelQuery(f"histogram_quantile(0.99, {buckets})", "p99"),
        ],
        _SECONDS,
        empty=empty,
    )


def _increase(name: str) -> str:
    return f"sum(increase({_HERE.series(name)}[$__rate_interval]))"
