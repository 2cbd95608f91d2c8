"""Fleet: which of the clusters must be looked at, worst first."""

from __future__ import annotations

from typing import Final

from grafana.layout import Dashboard, band, row
from grafana.panels import (
    BY_SEVERITY,
    CLEAR,
    NONE_OR_ORANGE,
    NONE_OR_RED,
    PLAIN,
    Look,
    Mapping,
    PanelQuery,
    Steps,
    TableColumn,
    above_zero,
    gauges,
    lines,
    stat,
    table,
)
from grafana.queries import Scope
from grafana.variables import Json, clusters, console, datasource

_ALL: Final = Scope(one=(), many=("cluster",))

_AT_RISK: Final = ("partitions_at_risk", "brokers_at_risk", "at_risk")
"""The metrics with the number of open risks: of partitions, of brokers, and of the cluster."""

_WORST: Final[Mapping] = {
    "4": ("not up", "red"),
    "3": ("page", "red"),
    "2": ("warn", "orange"),
    "1": ("info", "blue"),
    "0": ("none", "green"),
}

_SOON: Final[Steps] = ((None, "red"), (4 * 3_600, "orange"), (24 * 3_600, "transparent"))
"""Times until a disk is full; as disk.page_before_ms and warn_before_ms are by default."""

_UP: Final = _ALL.latest("up", "cluster")


def _has(severity: str) -> str:
    """Clusters with an open risk of that severity."""
    each = (f"({_ALL.latest(name, 'cluster', severity=severity)} > 0)" for name in _AT_RISK)
    return " or ".join(each)


def _worst() -> str:
    ranks = {"page": 3, "warn": 2, "info": 1}
    risks = " or ".join(f"0 * ({_has(name)}) + {rank}" for name, rank in ranks.items())
    return f"(0 * ({_UP} == 0) + 4 or {risks} or 0 * {_UP})"


def _number_of(condition: str) -> str:
    """How many clusters there are of which that holds; no value without any cluster."""
    return f"count({condition}) or 0 * max({_UP})"


def _now() -> tuple[Json, ...]:
    return (
        stat("Known", "Clusters of which there is a twin.", f"count({_UP})", Look()),
        stat(
            "Not up",
            "Clusters of which snapshots are missing or old: what is shown of them is the state "
            "before.",
            _number_of(f"{_UP} == 0"),
            Look(steps=NONE_OR_RED),
        ),
        stat(
            "With a page",
            "Clusters with an open risk that pages somebody.",
            _number_of(_has("page")),
            Look(steps=NONE_OR_RED),
        ),
        stat(
            "With a warning",
            "Clusters with an open risk that warns.",
            _number_of(_has("warn")),
            Look(steps=NONE_OR_ORANGE),
        ),
        stat(
            "Cannot lose a broker",
            "Clusters of which some broker cannot be lost now: a partition would be offline, lose "
            "committed records or refuse acks=all.",
            _number_of(f"{_ALL.latest('broker_loss_harmed_partitions', 'cluster')} > 0"),
            Look(steps=NONE_OR_RED),
        ),
    )


def _clusters() -> Json:
    harmed = _ALL.latest("broker_loss_harmed_partitions", "cluster", "broker")

    def at_risk(severity: str) -> str:
        return _ALL.added("partitions_at_risk", "cluster", over="risk", severity=severity)

    return table(
        "Clusters",
        "The worst first. Partitions count once for each of their risks. Times are until the "
        "first disk is full: as things are, and if remote storage is away from now on.",
        ("cluster",),
        [
            TableColumn("Worst", _worst(), Look(mapping=_WORST)),
            TableColumn("Page", at_risk("page"), Look(steps=above_zero("red"))),
            TableColumn("Warn", at_risk("warn"), Look(steps=above_zero("orange"))),
            TableColumn("Info", at_risk("info"), Look(steps=PLAIN)),
            TableColumn(
                "Cannot be lost",
                f"sum by (cluster) ({harmed} > bool 0)",
                Look(steps=above_zero("red")),
            ),
            TableColumn(
                "Offline",
                _ALL.latest("partitions_offline", "cluster"),
                Look(steps=above_zero("red")),
            ),
            TableColumn(
                "Under min ISR",
                _ALL.latest("partitions_under_min_isr", "cluster"),
                Look(steps=above_zero("red")),
            ),
            TableColumn(
                "Disk full in",
                _first("log_dir_full_seconds", "broker", "log_dir", bound="earliest"),
                Look("s", _SOON),
            ),
            TableColumn(
                "Without remote storage",
                _first("tier_outage_survived_seconds", "broker"),
                Look("s", _SOON),
            ),
            TableColumn("Predicted right", _right(), Look("percentunit", decimals=1)),
            TableColumn("Partitions", _ALL.latest("partitions", "cluster")),
            TableColumn(
                "Age",
                _ALL.latest("observation_age_seconds", "cluster"),
                Look("s", (*CLEAR, (30, "orange"), (60, "red"))),
            ),
        ],
        sort="Worst",
        empty="No cluster is known",
    )


def _first(name: str, *labels: str, **chosen: str) -> str:
    """The lowest value of a cluster."""
    return f"min by (cluster) ({_ALL.latest(name, 'cluster', *labels, **chosen)})"


def _right() -> str:
    right = _ALL.total("predictions_total", "cluster", result="right")
    return f"({right} / ({_ALL.total('predictions_total', 'cluster')} > 0))"


def _risks_over_time(severity: str, title: str) -> Json:
    each = _ALL.added("partitions_at_risk", "cluster", over="risk", severity=severity)
    return lines(
        title,
        f"Partitions with open risks of the severity {severity}, by cluster; a partition counts "
        "once for each of them.",
        [PanelQuery(f"{each} > 0", "{{cluster}}")],
        Look(lowest=0),
        empty="No partition had such a risk",
    )


def _by_severity() -> Json:
    each = _ALL.latest("partitions_at_risk", "cluster", "risk", "severity")
    return gauges(
        "Partitions at risk by severity",
        "Over all clusters; a partition counts once for each of its risks.",
        PanelQuery(f"sum by (severity) ({each})", "({{severity}})"),
        Look(steps=((None, "orange"),), lowest=0),
        colors=BY_SEVERITY,
        empty="No cluster is known",
    )


def _age() -> Json:
    return lines(
        "Age of observations",
        "Age of the oldest among the newest observations of a cluster's shards.",
        [PanelQuery(_ALL.latest("observation_age_seconds", "cluster"), "{{cluster}}")],
        Look("s", lowest=0),
        empty="No cluster is known",
    )


def _until_full() -> Json:
    first = _first("log_dir_full_seconds", "broker", "log_dir", bound="earliest")
    return lines(
        "Time until a first disk is full",
        "At the earliest, if logs take the most that they may. A cluster of which that is not in "
        "sight has no line.",
        [PanelQuery(f"{first} < +Inf", "{{cluster}}")],
        Look("s", lowest=0),
        empty="No disk is foretold to be full within two weeks, or none is of known size",
    )


def _predicted() -> Json:
    return gauges(
        "Predicted right by cluster",
        "Share of all leader changes in which Kafka elected the leader that the twin had "
        "predicted.",
        PanelQuery(_right(), "{{cluster}}"),
        Look("percentunit", decimals=1, lowest=0, highest=1),
        empty="No leader has changed yet",
    )


DASHBOARD: Final = Dashboard(
    uid="kafka-twin-fleet",
    title="Kafka twin / Fleet",
    text="Which of the clusters must be looked at: open risks, disks, freshness and predictions "
    "of each.",
    variables=(datasource(), clusters(), console()),
    rows=(
        row("Now", band(4, *_now(), widths=(4, 4, 5, 5, 6))),
        row("Clusters", band(12, _clusters())),
        row(
            "Risks",
            band(8, _by_severity(), _risks_over_time("page", "What pages, by cluster"),
                 _risks_over_time("warn", "What warns, by cluster")),
        ),
        row("Horizons and freshness", band(8, _until_full(), _age(), _predicted())),
    ),
    is_of_fleet=True,
)  # fmt: skip
