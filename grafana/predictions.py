"""The panel on how many predictions were right, on every dashboard that shows it."""

from __future__ import annotations

from grafana.links import Links
from grafana.panels import Look, stat
from grafana.queries import Scope
from grafana.variables import Json


def predicted_right(scope: Scope, links: Links = ()) -> Json:
    """The share of leader changes that were predicted; no value before the first one."""
    right, every = (
        scope.total("predictions_total", result="right"),
        scope.total("predictions_total"),
    )
    return stat(
        "Predicted right",
        "Share of all leader changes in which Kafka elected the leader that the twin had "
        "predicted.",
        f"{right} / ({every} > 0)",
        Look("percentunit", decimals=1),
        links=links,
        empty="none yet",
    )
