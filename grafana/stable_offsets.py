"""Panels about last stable offsets that open transactions hold back."""

from __future__ import annotations

from grafana.panels import Look, PanelQuery, TableColumn, lines, table
from grafana.queries import Scope
from grafana.variables import Json


def panels(here: Scope) -> tuple[Json, ...]:
    """Two panels, for the row about uploads: uploads stop at the last stable offset."""
    by = ("topic", "partition")
    open_for = here.latest("partition_transaction_open_seconds", *by)
    return (
        table(
            "Longest open transactions",
            "The ten partitions whose last stable offset has stayed longest below the high "
            "watermark: nothing beyond it is uploaded, nor read with read_committed.",
            by,
            [
                TableColumn(
                    "Open for",
                    f"topk(10, {open_for})",
                    Look("s", ((None, "transparent"), (120, "orange"))),
                )
            ],
            sort="Open for",
            empty="No transaction is open",
        ),
        lines(
            "Records held by open transactions",
            "Records that consumers with read_committed do not get yet.",
            [PanelQuery(f"{here.latest('transaction_held_records')} > 0", "records")],
            Look(lowest=0),
            empty="No transaction holds records",
        ),
    )
