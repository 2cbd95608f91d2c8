"""``python -m grafana``: write grafana/dashboards/*.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from grafana import (
    cluster,
    consumers,
    fleet,
    partition,
    replication_health,
    tiered_storage,
    twin_itself,
)
from grafana.layout import Dashboard

DASHBOARDS: Final = (
    fleet.DASHBOARD,
    cluster.DASHBOARD,
    partition.DASHBOARD,
    consumers.DASHBOARD,
    tiered_storage.DASHBOARD,
    replication_health.DASHBOARD,
    twin_itself.DASHBOARD,
)

FOLDER: Final = Path(__file__).with_name("dashboards")


def text(dashboard: Dashboard) -> str:
    """The file of a dashboard: the same for the same code."""
    return json.dumps(dashboard.json(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the files."""
    for dashboard in DASHBOARDS:
        (FOLDER / f"{dashboard.uid}.json").write_text(text(dashboard), encoding="utf-8")


if __name__ == "__main__":
    main()
