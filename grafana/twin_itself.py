"""Twin itself: is what the other dashboards show complete, fresh and affordable."""

from __future__ import annotations

from typing import Final

from grafana.layout import Dashboard, band, row
from grafana.panels import NONE_OR_ORANGE, Column, Look, Query, lines, stat, states, table
from grafana.queries import Scope, or_zero, per_second
from grafana.variables import Json, cluster, datasource

_HERE: Final = Scope()

_UP: Final = Look(mapping={"1": ("up", "green"), "0": ("down", "red")})
_AGE: Final = Look("s", ((None, "green"), (30, "orange"), (60, "red")), lowest=0)


def _now() -> tuple[Json, ...]:
    def since(name: str) -> str:
        """How much a counter grew."""
        return or_zero(_HERE, f"sum(increase({_HERE.series(name)}[$__range]))")

    return (
        stat("Twin", "Up while its knowledge is complete and fresh.", _HERE.latest("up"), _UP),
        stat("Age of knowledge", "Age of the stalest shard's newest observation.",
             _HERE.latest("observation_age_seconds"), _AGE),
        stat("Shards", "Whose snapshot has been read.", _HERE.latest("shards"), Look()),
        stat("Partitions", "The twin knows.", _HERE.latest("partitions"), Look("locale")),
        stat("Replicas", "The twin knows.", _HERE.latest("replicas"), Look("locale")),
        stat("Observations refused", "In the time shown.", since("observations_refused_total"),
             Look(steps=NONE_OR_ORANGE, decimals=0)),
        stat("Snapshots refused", "In the time shown.", since("snapshots_refused_total"),
             Look(steps=NONE_OR_ORANGE, decimals=0)),
        stat("Series dropped", "In the time shown, because of max_series.",
             since("series_dropped_total"), Look(steps=NONE_OR_ORANGE, decimals=0)),
    )  # fmt: skip


def _knowledge() -> tuple[Json, ...]:
    return (
        lines("Age of knowledge over time", "Between cycles it grows by the collector's interval.",
              [Query(_HERE.latest("observation_age_seconds"), "age")], _AGE),
        states("Twin over time", "Up while its knowledge is complete and fresh.",
               [Query(_HERE.latest("up"), "twin")], _UP),
    )  # fmt: skip


def _flow() -> tuple[Json, ...]:
    per_s = Look("ops", lowest=0)
    return (
        lines("Snapshots read", "A second, parts counted one by one.",
              [Query(per_second(_HERE, "exporter_snapshots_read_total"), "snapshots")], per_s),
        lines("Changes told", "A second, by kind.",
              [Query(per_second(_HERE, "events_total", "kind"), "{{kind}}")], per_s, stacked=True,
              empty="Nothing was told yet"),
        lines("Refused", "A second, by reason. Each is told in the log of who refused it.",
              [
                  Query(per_second(_HERE, "observations_refused_total", "reason"),
                        "observation: {{reason}}"),
                  Query(per_second(_HERE, "snapshots_refused_total", "reason"),
                        "snapshot: {{reason}}"),
              ],
              per_s, empty="Nothing was refused"),
    )  # fmt: skip


def _query() -> tuple[Json, ...]:
    limit = Look("s", ((None, "green"), (10, "orange"), (30, "red")), lowest=0)
    return (
        lines("Cycle", "Time between the two newest cycles; the collector skips what it misses.",
              [Query(_HERE.latest("cycle_seconds"), "cycle")], Look("s", lowest=0)),
        lines("Told after", "From an observation to the snapshot made of it: bus, batch and bus.",
              [Query(_HERE.latest("told_after_seconds"), "told after")], limit),
        lines("State", "Of the query, as it is on disk and on the bus.",
              [Query(_HERE.latest("state_bytes"), "state")], Look("bytes", lowest=0)),
    )  # fmt: skip


def _exporter() -> tuple[Json, ...]:
    return (
        lines("Time to render", "Of the newest snapshots; a scrape only sends what is rendered.",
              [Query(_HERE.latest("exporter_render_seconds"), "render")],
              Look("s", ((None, "green"), (1, "orange")), lowest=0)),
        lines("Series of partitions and replicas", "In the exposition, at most max_series.",
              [Query(_HERE.latest("exporter_series"), "exported")], Look("locale", lowest=0)),
    )  # fmt: skip


def _collected() -> Json:
    def of(name: str) -> str:
        return _HERE.latest(f"broker_{name}", "broker", "rack")

    return table(
        "Brokers that answered", "In the newest cycle, in time.", ("broker", "rack"),
        [
            Column("Answered", of("answered"),
                   Look(mapping={"1": ("yes", "green"), "0": ("no", "red")})),
            Column("Replicas", of("replicas"), Look("locale")),
        ],
        empty="No broker is known",
    )  # fmt: skip


def _trust() -> Json:
    names = {
        "replicas_coverage_assumed": "taken as eligible: a number is unknown",
        "replicas_local_log_unknown": "local log of unknown size",
        "replicas_timestamp_suspect": "first record dated before it was written",
    }
    return lines(
        "What is not known for sure", "Replicas.",
        [Query(_HERE.latest(name), legend) for name, legend in names.items()],
        Look("locale", lowest=0),
    )  # fmt: skip


DASHBOARD: Final = Dashboard(
    uid="kafka-twin-itself",
    title="Kafka twin / Twin itself",
    text="Is what the other dashboards show complete, fresh and affordable?",
    variables=(datasource(), cluster()),
    rows=(
        row("Now", band(4, *_now())),
        row("Knowledge", band(7, *_knowledge()), band(7, _collected(), _trust())),
        row("Query", band(7, *_query())),
        row("Flow", band(8, *_flow())),
        row("Exporter", band(8, *_exporter())),
    ),
)  # fmt: skip
