"""Panels about blocked last stable offsets, and about offsets that contradict each other."""

from __future__ import annotations

from grafana.links import SERIES_PARTITION
from grafana.panels import Look, PanelQuery, gauges, lines
from grafana.queries import Scope
from grafana.variables import Json


def panels(here: Scope) -> tuple[Json, ...]:
    """Three panels, for the row about uploads: uploads stop at the last stable offset."""
    by = ("topic", "partition")
    return (
        gauges(
            "Longest open transactions",
            "The ten partitions whose last stable offset has stayed longest below the high "
            "watermark: nothing beyond it is uploaded, nor read with read_committed.",
            PanelQuery(
                f"sort_desc(topk(10, {here.latest('partition_transaction_open_seconds', *by)}))",
                "{{topic}}-{{partition}}",
            ),
            Look("s", ((None, "green"), (120, "orange")), lowest=0),
            links=SERIES_PARTITION,
            empty="No transaction is open",
        ),
        lines(
            "Records held by open transactions",
            "Records that consumers with read_committed do not get yet.",
            [PanelQuery(here.latest("transaction_held_records"), "records")],
            Look(lowest=0),
        ),
        lines(
            "Offsets out of order",
            "Partitions whose leader's offsets do not meet an inequality of KIP-1023.",
            [
                PanelQuery(
                    here.latest("partitions_in_tier_disorder", "inequality"), "{{inequality}}"
                )
            ],
            Look(lowest=0),
        ),
    )
