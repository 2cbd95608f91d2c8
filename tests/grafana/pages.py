"""Parts of the dashboards that several tests look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from grafana.__main__ import DASHBOARDS
from grafana.layout import Dashboard

ROOT: Final = Path(__file__).parents[2]

Json = dict[str, Any]

each_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda d: d.uid)


def panels(dashboard: Dashboard) -> list[Json]:
    """All panels, also those of rows that are collapsed."""
    top = dashboard.json()["panels"]
    return [
        each for panel in top for each in (panel, *panel.get("panels", ())) if each["type"] != "row"
    ]
