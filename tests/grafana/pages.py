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
    return [panel for panel in dashboard.json()["panels"] if panel["type"] != "row"]
