"""PromQL over the twin's metrics, filtered by the variables of a dashboard.

Names and labels are looked up in the catalog, so a panel cannot query a metric that is not
exported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from grafana.variables import VARIABLES
from streaming.admission.own_metrics import OWN as ADMISSION
from streaming.archive.own_metrics import OWN as ARCHIVE
from streaming.collector.own_metrics import OWN as COLLECTOR
from streaming.exporter.own_metrics import OWN as EXPORTER
from streaming.query.own_metrics import OWN as QUERY
from streaming.tap.own_metrics import OWN as TAP
from twin.builtin import CATALOG

LABELS: Final = {
    name: ("cluster", *metric.label_names, *(("le",) if name.endswith("_bucket") else ()))
    for metric in (*EXPORTER, *COLLECTOR, *QUERY, *ARCHIVE, *TAP, *ADMISSION, *CATALOG.all_metrics)
    for name in metric.series_names
}
"""The labels that every series of a metric carries."""

ELECTION_POLICIES: Final = {"kafka": "Kafka today", "kip1303": "KIP-1303", "kip501": "KIP-501"}
"""Titles of the election rules, by the value of the label ``rule``."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The labels that a dashboard's variables filter: ``one`` by one value, ``many`` by several."""

    one: tuple[str, ...] = ("cluster",)
    many: tuple[str, ...] = ()

    def series(self, name: str, **label_values: str | tuple[str, ...]) -> str:
        """A selector of the metric, by its labels that have a variable and by the given labels."""
        metric = f"kafka_twin_{name}"
        labels = LABELS[metric]
        unknown = set(label_values) - set(labels)
        if unknown:
            raise KeyError(f"{metric} has no label {', '.join(sorted(unknown))}")
        matchers = [f'{label}="${label}"' for label in self.one if label in labels]
        matchers += [
            f'{label}=~"${VARIABLES.get(label, label)}"' for label in self.many if label in labels
        ]
        matchers += [_matcher(label, value) for label, value in label_values.items()]
        return f"{metric}{{{', '.join(matchers)}}}"

    def latest(self, name: str, *by: str, **label_values: str | tuple[str, ...]) -> str:
        """One value for each combination of the labels in ``by``.

        The highest of several values, not their sum: while an exporter is replaced, Prometheus has
        the series of both.
        """
        return highest(self.series(name, **label_values), *by)

    def added(self, name: str, *by: str, over: str, **label_values: str | tuple[str, ...]) -> str:
        """The sum of the latest values over one more label."""
        return f"sum{_by(by)} ({self.latest(name, *by, over, **label_values)})"

    def total(self, name: str, *by: str, **label_values: str | tuple[str, ...]) -> str:
        """The sum over the labels that are not in ``by``."""
        return f"sum{_by(by)} ({self.series(name, **label_values)})"


def highest(expr: str, *by: str) -> str:
    """The highest value for each combination of the labels."""
    return f"max{_by(by)} ({expr})"


def or_zero(scope: Scope, expr: str) -> str:
    """The expression, or 0 if nothing was counted yet. Without an exporter: no value."""
    return f"{expr} or 0 * {scope.latest('up')}"


def per_second(scope: Scope, name: str, *by: str) -> str:
    """Rate of a counter."""
    return f"sum{_by(by)} (rate({scope.series(name)}[$__rate_interval]))"


def _by(labels: tuple[str, ...]) -> str:
    return f" by ({', '.join(labels)})" if labels else ""


def _matcher(label: str, value: str | tuple[str, ...]) -> str:
    if isinstance(value, str):
        return f'{label}="{value}"'
    return f'{label}=~"{"|".join(value)}"'
