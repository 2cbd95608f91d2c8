"""Twin itself: whether the other dashboards are complete and fresh, and what the twin costs."""

from __future__ import annotations

from typing import Final

from grafana import programs
from grafana.layout import Dashboard, band, row
from grafana.panels import (
    NONE_OR_ORANGE,
    NONE_OR_RED,
    Look,
    PanelQuery,
    TableColumn,
    lines,
    stat,
    table,
)
from grafana.predictions import predicted_right
from grafana.queries import Scope, or_zero, per_second
from grafana.variables import Json, cluster, console, datasource

_HERE: Final = Scope()

_UP: Final = Look(mapping={"1": ("up", "green"), "0": ("down", "red")})
_AGE: Final = Look("s", ((None, "green"), (30, "orange"), (60, "red")), lowest=0)


def _grown(name: str, **label_values: str) -> str:
    """The increase of a counter in the displayed time range."""
    return or_zero(_HERE, f"sum(increase({_HERE.series(name, **label_values)}[$__range]))")


def _now() -> tuple[Json, ...]:
    return (
        stat(
            "Twin", "Up while every shard's snapshot is there and recent.", _HERE.latest("up"), _UP
        ),
        stat(
            "Age of observations",
            "Age of the oldest among the shards' newest observations.",
            _HERE.latest("observation_age_seconds"),
            _AGE,
        ),
        stat(
            "Observations refused",
            "Observations that the query could not use, in the time shown.",
            _grown("observations_refused_total"),
            Look(steps=NONE_OR_ORANGE, decimals=0),
        ),
        stat(
            "Snapshots refused",
            "Snapshots and events that the exporter could not use, in the time shown.",
            _grown("snapshots_refused_total"),
            Look(steps=NONE_OR_ORANGE, decimals=0),
        ),
        stat(
            "Series dropped",
            "Series left out because of exporter.max_series, in the time shown.",
            _grown("series_dropped_total"),
            Look(steps=NONE_OR_ORANGE, decimals=0),
        ),
    )


def _predictions() -> tuple[Json, ...]:
    whole = Look("locale", decimals=0)
    return (
        stat(
            "Leader changes",
            "Leader changes in the time shown; each is compared with the prediction before it.",
            _grown("predictions_total"),
            whole,
        ),
        predicted_right(_HERE),
        stat(
            "Predicted wrong",
            "Leader changes for which the twin predicted another leader, and nothing that it "
            "observed explains why.",
            _grown("predictions_total", result="wrong"),
            Look("locale", NONE_OR_RED, decimals=0),
        ),
        stat(
            "Cold elections",
            "Lost leaders replaced by a cold replica while a warm one was in sync: KIP-1303 would "
            "have elected the warm one.",
            _grown("cold_elections_total"),
            Look("locale", NONE_OR_ORANGE, decimals=0),
        ),
        lines(
            "Leader changes by result",
            "overtaken: something else changed between the last observation and the election. "
            "unforeseen: the twin did not know the replica yet.",
            [
                PanelQuery(
                    f"sum by (result) (increase({_HERE.series('predictions_total')}"
                    "[$__rate_interval]))",
                    "{{result}}",
                )
            ],
            Look("locale", lowest=0, decimals=0),
            stacked=True,
            colors={"right": "green", "wrong": "red", "overtaken": "orange", "unforeseen": "blue"},
        ),
    )


def _observations() -> tuple[Json, ...]:
    return (
        lines(
            "Age of observations over time",
            "It grows up to the collector's interval and falls with each cycle.",
            [PanelQuery(_HERE.latest("observation_age_seconds"), "age")],
            _AGE,
        ),
    )


def _flow() -> tuple[Json, ...]:
    per_s = Look("ops", lowest=0)
    return (
        lines(
            "Snapshots read",
            "Messages with a snapshot, or a part of one, read a second.",
            [PanelQuery(per_second(_HERE, "exporter_snapshots_read_total"), "snapshots")],
            per_s,
        ),
        lines(
            "Events",
            "Events a second, by kind.",
            [PanelQuery(per_second(_HERE, "events_total", "kind"), "{{kind}}")],
            per_s,
            stacked=True,
            empty="No event was reported",
        ),
        lines(
            "Refused",
            "Messages a second, by reason; the log of the program that refused one has the "
            "details.",
            [
                PanelQuery(
                    per_second(_HERE, "observations_refused_total", "reason"),
                    "observation: {{reason}}",
                ),
                PanelQuery(
                    per_second(_HERE, "snapshots_refused_total", "reason"), "snapshot: {{reason}}"
                ),
            ],
            per_s,
            empty="Nothing was refused",
        ),
    )


def _query() -> tuple[Json, ...]:
    limit = Look("s", ((None, "green"), (10, "orange"), (30, "red")), lowest=0)
    return (
        lines(
            "Cycle",
            "Time between the two newest cycles of the collector.",
            [PanelQuery(_HERE.latest("cycle_seconds"), "cycle")],
            Look("s", lowest=0),
        ),
        lines(
            "End-to-end latency",
            "Time from an observation to the snapshot made from it.",
            [PanelQuery(_HERE.latest("end_to_end_latency_seconds"), "latency")],
            limit,
        ),
        lines(
            "State",
            "Encoded size of the query's state.",
            [PanelQuery(_HERE.latest("state_bytes"), "state")],
            Look("bytes", lowest=0),
        ),
    )


def _exporter() -> tuple[Json, ...]:
    return (
        lines(
            "Time to render",
            "Time to render the newest snapshots; a scrape sends what is rendered.",
            [PanelQuery(_HERE.latest("exporter_render_seconds"), "render")],
            Look("s", ((None, "green"), (1, "orange")), lowest=0),
        ),
        lines(
            "Series of partitions and replicas",
            "Series in the newest exposition.",
            [PanelQuery(_HERE.latest("exporter_series"), "exported")],
            Look("locale", lowest=0),
        ),
    )


def _collected() -> Json:
    def expr(name: str) -> str:
        return _HERE.latest(f"broker_{name}", "broker", "rack")

    return table(
        "Brokers that answered",
        "Whether each broker answered the newest cycle in time.",
        ("broker", "rack"),
        [
            TableColumn(
                "Answered",
                expr("answered"),
                Look(mapping={"1": ("yes", "green"), "0": ("no", "red")}),
            ),
            TableColumn("Replicas", expr("replicas"), Look("locale")),
        ],
        empty="No broker is known",
    )


def _unknown() -> Json:
    names = {
        "replicas_coverage_assumed": "taken as eligible: a number is unknown",
        "replicas_local_log_unknown": "local log of unknown size",
        "replicas_timestamp_suspect": "first record dated too early",
    }
    return lines(
        "Replicas with unknown values",
        "Replicas whose numbers are unknown or implausible.",
        [PanelQuery(_HERE.latest(name), legend) for name, legend in names.items()],
        Look("locale", lowest=0),
    )


DASHBOARD: Final = Dashboard(
    uid="kafka-twin-itself",
    title="Kafka twin / Twin itself",
    text="Whether the other dashboards are complete and fresh, and what the twin costs.",
    variables=(datasource(), cluster(), console()),
    console_view="twin",
    rows=(
        row("Now", band(3, *_now())),
        row("Observations", band(7, *_observations(), _collected(), _unknown())),
        row("Predictions", band(6, *_predictions(), widths=(4, 4, 4, 4, 8))),
        row("Flow", band(8, *_flow())),
        row("Collector", band(7, *programs.collector()), is_collapsed=True),
        row("Query", band(7, *_query()), band(7, *programs.query()), is_collapsed=True),
        row("Exporter", band(8, *_exporter()), is_collapsed=True),
        row("Archive", band(7, *programs.archive()), is_collapsed=True),
        row("Taps", band(7, *programs.tap()), is_collapsed=True),
    ),
)
