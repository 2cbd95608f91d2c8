"""A dashboard of rows of panels: their positions, ids and links."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from grafana.links import console_link
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


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One page. People keep links with its uid, so the uid never changes."""

    uid: str
    title: str
    text: str
    variables: tuple[Json, ...]
    rows: tuple[Row, ...]
    marked_by: tuple[str, ...] = ()
    """Tags of its annotations, in addition to the cluster's."""
    console_view: str = ""
    """The matching view of the console, as in ``console_link``; the cluster's view if empty."""

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
            "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "",
            "annotations": {"list": [_marks(self.marked_by)]},
            "links": [_siblings(), _console(self.console_view)],
            "templating": {"list": list(self.variables)},
            "panels": list(_placed(self.rows)),
        }


def band(height: int, *panels: Json, widths: Sequence[int] = ()) -> Band:
    """Panels side by side."""
    return Band(height, panels, tuple(widths))


def bands(height: int, panels: Sequence[Json], *, across: int) -> tuple[Band, ...]:
    """The panels in bands of equal height, at most ``across`` side by side."""
    return tuple(
        band(height, *panels[first : first + across]) for first in range(0, len(panels), across)
    )


def row(title: str, *bands: Band) -> Row:
    """A heading and the bands below it."""
    return Row(title, bands)


def panel_id(title: str) -> int:
    """An id derived from the title, so that links stay valid when panels are added before it."""
    return zlib.crc32(title.encode()) % 1_000_000


def _marks(tags: Sequence[str]) -> Json:
    """The annotations of the exporter and of ``kafka-twin grafana annotate`` for this cluster."""
    return {
        "name": "Events of the twin",
        "enable": True,
        "hide": False,
        "iconColor": "purple",
        "datasource": {"type": "grafana", "uid": "-- Grafana --"},
        "target": {
            "type": "tags",
            "tags": [TAG, "cluster:$cluster", *tags],
            "matchAny": False,
            "limit": 200,
        },
    }


def _siblings() -> Json:
    """All dashboards of the twin, in the bar at the top."""
    return {
        "type": "dashboards",
        "title": "Kafka twin",
        "tags": [TAG],
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
    }


def _console(view: str) -> Json:
    """The console, in the bar at the top."""
    shape = {"type": "link", "icon": "external link", "asDropdown": False, "tags": []}
    return console_link("Console", view) | shape


def _placed(rows: Sequence[Row]) -> Iterator[Json]:
    y = 0
    for heading in rows:
        yield {
            "type": "row",
            "id": panel_id(f"row {heading.title}"),
            "title": heading.title,
            "collapsed": False,
            "gridPos": _grid(0, y, WIDTH, 1),
            "panels": [],
        }
        y += 1
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
