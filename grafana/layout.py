"""A dashboard of rows of panels: their positions, ids and links."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from grafana.links import console_link, fleet_link
from grafana.variables import Json

WIDTH: Final = 24
"""Columns of Grafana's grid."""

TAG: Final = "kafka-twin"

_SCHEMA_VERSION: Final = 38
"""The schema of Grafana 10. Later versions migrate older dashboards when they load them."""


@dataclass(frozen=True, slots=True)
class Band:
    """Panels side by side, of the same height, and of equal width unless ``widths`` is given."""

    height: int
    panels: tuple[Json, ...]
    widths: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A heading and the bands below it."""

    title: str
    bands: tuple[Band, ...]
    is_collapsed: bool = False


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One page. People keep links with its uid, so the uid never changes."""

    uid: str
    title: str
    text: str
    variables: tuple[Json, ...]
    rows: tuple[Row, ...]
    marked: tuple[str, ...] = ()
    """Titles of the panels with annotations; on all of them they would bury the charts."""
    marked_by: tuple[str, ...] = ()
    """Tags of its annotations, in addition to the cluster's."""
    console_view: str = ""
    """The matching view of the console, as in ``console_link``; the cluster's view if empty."""
    is_of_fleet: bool = False
    """It is about all clusters, as the console's page at the root is."""

    def json(self) -> Json:
        """The JSON that Grafana loads."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.text,
            "tags": [TAG],
            "schemaVersion": _SCHEMA_VERSION,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "30s",  # at 10 s a busy Prometheus left the lower rows empty
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "",
            "annotations": {"list": list(_marks(self.marked, self.marked_by))},
            "links": [_siblings(), self._console()],
            "templating": {"list": list(self.variables)},
            "panels": list(_placed(self.rows)),
        }

    def _console(self) -> Json:
        """The console, in the bar at the top."""
        shape = {"type": "link", "icon": "external link", "asDropdown": False, "tags": []}
        link = fleet_link if self.is_of_fleet else console_link
        return link("Console", self.console_view) | shape


def band(height: int, *panels: Json, widths: Sequence[int] = ()) -> Band:
    """Panels side by side."""
    return Band(height, panels, tuple(widths))


def bands(height: int, panels: Sequence[Json], *, across: int) -> tuple[Band, ...]:
    """The panels in bands of equal height, at most ``across`` side by side."""
    return tuple(
        band(height, *panels[first : first + across]) for first in range(0, len(panels), across)
    )


def row(title: str, *bands: Band, is_collapsed: bool = False) -> Row:
    """A heading and the bands below it."""
    return Row(title, bands, is_collapsed)


def panel_id(title: str) -> int:
    """An id derived from the title, so that links stay valid when panels are added before it."""
    return zlib.crc32(title.encode()) % 1_000_000


_MARKS: Final = {
    "Brokers fenced": ("broker_fenced", "red", True),
    "Brokers back": ("broker_unfenced", "green", True),
    "Leaders moved": ("leader_moved", "blue", False),
    "ISRs shrank": ("isr_shrank", "purple", False),
    "Risks opened": ("risk_opened", "orange", False),
}
"""Kinds of events that are marked: their tag, their colour, and whether they are at first."""


def _marks(panels: Sequence[str], tags: Sequence[str]) -> Iterator[Json]:
    """The annotations of the exporter for this cluster, and those of a person."""
    kinds = {"Marked by hand": ("by-hand", "text", True), **_MARKS}
    for name, (kind, color, is_on) in kinds.items() if panels else ():
        yield {
            "name": name,
            "enable": is_on,
            "hide": False,
            "iconColor": color,
            "datasource": {"type": "grafana", "uid": "-- Grafana --"},
            "filter": {"exclude": False, "ids": [panel_id(title) for title in panels]},
            "target": {
                "type": "tags",
                "tags": [TAG, "cluster:$cluster", kind, *(tags if kind in _OF_TOPICS else ())],
                "matchAny": False,
                "limit": 100,
            },
        }


_OF_TOPICS: Final = frozenset(("leader_moved", "isr_shrank", "risk_opened"))
"""Kinds of events that name a topic."""


def _siblings() -> Json:
    """All dashboards of the twin, in the bar at the top."""
    return {
        "type": "dashboards",
        "title": "Kafka twin",
        "tags": [TAG],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
    }


def _placed(rows: Sequence[Row]) -> Iterator[Json]:
    y = 0
    for heading in rows:
        panels = list(_panels_below(heading, y + 1))
        yield {
            "type": "row",
            "id": panel_id(f"row {heading.title}"),
            "title": heading.title,
            "collapsed": heading.is_collapsed,
            "gridPos": _grid(0, y, WIDTH, 1),
            "panels": panels if heading.is_collapsed else [],
        }
        y += 1
        if not heading.is_collapsed:
            yield from panels
            y += sum(line.height for line in heading.bands)


def _panels_below(heading: Row, y: int) -> Iterator[Json]:
    for line in heading.bands:
        widths = line.widths or (WIDTH // len(line.panels),) * len(line.panels)
        x = 0
        for panel, width in zip(line.panels, widths, strict=True):
            place: dict[str, Any] = {"gridPos": _grid(x, y, width, line.height)}
            yield {"id": panel_id(panel["title"])} | panel | place
            x += width
        y += line.height


def _grid(x: int, y: int, width: int, height: int) -> Json:
    return {"x": x, "y": y, "w": width, "h": height}
