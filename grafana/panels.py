"""The kinds of panels in the dashboards, as Grafana 10 to 12 read them.

Each function makes a panel; ``grafana.layout`` adds its id and its position. ``empty`` is the text
of a panel that may have nothing to show; a panel without it always has a value.

Panels are plain dictionaries. grafana-foundation-sdk leaves columns with their own units and
colours, transformations and links untyped as well, and its builder for dashboards that Grafana 10
reads is deprecated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from grafana.links import Links, cells
from grafana.variables import DATASOURCE, Json

Steps = tuple[tuple[float | None, str], ...]
"""Colours by the value they begin at, lowest first; None is minus infinity."""

PLAIN: Final[Steps] = ((None, "text"),)
CLEAR: Final[Steps] = ((None, "transparent"),)
BLUE: Final[Steps] = ((None, "blue"),)
NONE_OR_RED: Final[Steps] = ((None, "green"), (1, "red"))
NONE_OR_ORANGE: Final[Steps] = ((None, "green"), (1, "orange"))


def above_zero(color: str) -> Steps:
    """Steps for cells of a table, without a colour at 0."""
    return (*CLEAR, (1, color))


Mapping = dict[str, tuple[str, str]]
"""Text and colour instead of a value."""

SEVERITIES: Final = {"page": "red", "warn": "orange", "info": "blue"}
"""Colours of risks, the worst first."""

YES_NO: Final[Mapping] = {"1": ("yes", "green"), "0": ("no", "orange")}
NOBODY: Final[Mapping] = {"-1": ("nobody", "red")}
"""-1 is the only negative value that is exported: the partition has no leader."""

NEVER: Final[Mapping] = {"Infinity": ("never", "red")}
"""For the time until an event: +Inf if it never happens in the present state."""

_COUNT: Final = "short"


@dataclass(frozen=True, slots=True)
class PanelQuery:
    """A query to Prometheus, and the names of its series."""

    expr: str
    legend: str = "__auto"


@dataclass(frozen=True, slots=True)
class Look:
    """The formatting of values in a panel or a column."""

    unit: str = _COUNT
    steps: Steps = PLAIN
    mapping: Mapping = field(default_factory=dict)
    decimals: int | None = None
    lowest: float | None = None
    highest: float | None = None

    @property
    def coloured(self) -> bool:
        """Give some values their own colours."""
        return self.steps != PLAIN or bool(self.mapping)


BY_SEVERITY: Final = {rf"/\({name}\)$/": color for name, color in SEVERITIES.items()}
"""Colours of series whose legend ends with a severity in brackets."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table: one query, joined to the others by the key labels."""

    title: str
    expr: str
    look: Look = Look()


def stat(
    title: str, text: str, expr: str, look: Look, *, links: Links = (), empty: str = ""
) -> Json:
    """The present value as one number. The background colour says whether it is good."""
    return _panel("stat", title, text, [_instant(expr)], _field(look, links, empty)) | {
        "options": {
            "colorMode": "background" if look.coloured else "value",
            "graphMode": "none",
            "justifyMode": "center",
            "orientation": "auto",
            "textMode": "value",
            "reduceOptions": _LATEST,
        }
    }


def sentence(title: str, text: str, query: PanelQuery, *, empty: str) -> Json:
    """A label of one series, as text."""
    panel = stat(title, text, query.expr, Look(steps=PLAIN), empty=empty)
    panel["targets"] = [_instant(query.expr, query.legend)]
    panel["options"] |= {"colorMode": "none", "textMode": "name"}
    return panel


def lines(
    title: str,
    text: str,
    queries: Sequence[PanelQuery],
    look: Look,
    *,
    stacked: bool = False,
    colors: dict[str, str] | None = None,
    width: int = 1,
    fill: int = 10,
    empty: str = "",
) -> Json:
    """Values over time.

    ``colors`` are by legend, or by a regular expression between slashes. A stack has no lines:
    those of series that are 0 would lie on the edge of the others.
    """
    targets = [_range(query, letter) for query, letter in zip(queries, _LETTERS, strict=False)]
    custom = {
        "drawStyle": "line",
        "lineWidth": 0 if stacked else width,
        "fillOpacity": 70 if stacked else fill,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "line+area" if len(look.steps) > 1 else "off"},
    }
    if look.lowest is not None and look.highest is None:
        custom["axisSoftMax"] = look.lowest + _SOFT_MAX.get(look.unit, 1)
    defaults = _field(look, empty=empty)
    defaults |= {"custom": custom, "color": _BY_SERIES}
    overrides = [_colored(series, color) for series, color in (colors or {}).items()]
    return _panel("timeseries", title, text, targets, defaults, overrides) | {
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    }


def states(title: str, text: str, queries: Sequence[PanelQuery], look: Look) -> Json:
    """States over time, as coloured bands."""
    targets = [_range(query, letter) for query, letter in zip(queries, _LETTERS, strict=False)]
    defaults = _field(look) | {"custom": {"fillOpacity": 70, "lineWidth": 0}, "color": _BY_SERIES}
    return _panel("state-timeline", title, text, targets, defaults) | {
        "options": {
            "alignValue": "left",
            "mergeValues": True,
            "rowHeight": 0.9,
            "showValue": "auto",
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False},
            "tooltip": {"mode": "single", "sort": "none"},
        }
    }


def gauges(
    title: str,
    text: str,
    query: PanelQuery,
    look: Look,
    *,
    links: Links = (),
    colors: dict[str, str] | None = None,
    empty: str = "",
) -> Json:
    """A bar for each present value; ``colors`` as of ``lines``."""
    targets = [_instant(query.expr, query.legend)]
    overrides = [_colored(series, color) for series, color in (colors or {}).items()]
    return _panel("bargauge", title, text, targets, _field(look, links, empty), overrides) | {
        "options": {
            "displayMode": "basic",
            "orientation": "horizontal",
            "showUnfilled": True,
            "valueMode": "color",
            "namePlacement": "auto",
            # With "auto" one bar fills the panel, and its text with it.
            "sizing": "manual",
            "minVizHeight": 16,
            "maxVizHeight": 24,
            "minVizWidth": 8,
            "text": {"titleSize": 13, "valueSize": 13},
            "reduceOptions": _LATEST,
        }
    }


def bars(
    title: str,
    text: str,
    key: str,
    columns: Sequence[TableColumn],
    *,
    along: Literal["horizontal", "vertical"] = "vertical",
    stacked: bool = False,
    unseen: str = "",
    empty: str = "",
) -> Json:
    """Bars of present values: a group, or a stack, for each value of the label ``key``.

    ``unseen`` names an invisible column, which shifts the start of the others.
    """
    custom = {"fillOpacity": 80, "lineWidth": 0, "axisGridShow": True, "axisSoftMax": 1}
    looks = [_override(column.title, _column_properties(column.look)) for column in columns]
    # Without a unit of its own the key would get that of the values: broker "2 B".
    looks.append(_override(key.capitalize(), {"unit": "none"}))
    if unseen:
        hidden = {"viz": False, "legend": True, "tooltip": True}
        looks.append(
            _override(
                unseen,
                {
                    "color": {"mode": "fixed", "fixedColor": "transparent"},
                    "custom.fillOpacity": 0,
                    "custom.hideFrom": hidden,
                },
            )
        )
    defaults = _field(columns[0].look, empty=empty)
    defaults |= {"custom": custom, "color": _BY_SERIES, "min": 0}
    return _panel("barchart", title, text, _joined(columns), defaults, looks) | {
        "transformations": _join((key,), columns),
        "options": {
            "xField": key.capitalize(),
            "orientation": along,
            "stacking": "normal" if stacked else "none",
            "showValue": "never" if stacked else "auto",  # they lie beside the bars' own parts
            "barWidth": 0.8,
            "groupWidth": 0.8,
            "xTickLabelRotation": 0,
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "none"},
        },
    }


def table(
    title: str,
    text: str,
    keys: tuple[str, ...],
    columns: Sequence[TableColumn],
    *,
    key_looks: dict[str, Look] | None = None,
    rule: str = "kafka",
    sort: str = "",
    empty: str,
) -> Json:
    """A table of present values, one row for each combination of the labels ``keys``.

    Keys link to the objects that they name (``grafana.links``); ``rule`` is the election policy in
    links about the loss of a broker. ``sort`` names the column whose highest value comes first. A
    column without a title is not shown.
    """
    looks = {key.capitalize(): (key_looks or {}).get(key, Look("none")) for key in keys}
    looks |= {column.title: column.look for column in columns if column.title}
    overrides = [
        _override(name, _cell_properties(look) | {"custom.minWidth": column_px(name)})
        for name, look in looks.items()
    ]
    overrides += [
        _override(key.capitalize(), {"links": list(links)})
        for key, links in cells(keys, rule).items()
    ]
    defaults: Json = {"custom": {"align": "auto", "inspect": False}}
    defaults["noValue"] = empty
    several = len(columns) > 1
    targets = [_as_columns(columns)] if several else _joined(columns)
    return _panel("table", title, text, targets, defaults, overrides) | {
        "transformations": _columns_of(keys, columns) if several else _join(keys, columns),
        "options": {
            "showHeader": True,
            "cellHeight": "sm",
            "sortBy": [{"displayName": sort, "desc": True}] if sort else [],
        },
    }


def column_px(title: str) -> int:
    """The smallest width of a table's column in which its header is readable.

    Grafana's default is 150 px: it hides five of ten columns in half a page.
    """
    return _WIDE_PX.get(title, max(60, 7 * len(title) + 16))


# ------------------------------------------------------------ what panels share

_WIDE_PX: Final = {"Topic": 160}
"""Columns whose cells are longer than their headers."""

_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_BY_SERIES: Final = {"mode": "palette-classic"}
"""Colours of charts and timelines, beneath value mappings and overrides.

With "thresholds" a state timeline merges values by range and ignores their mappings, and a bar
chart fills every bar as its first series, which may be a hidden one (seen on Grafana 12.4).
"""

_SOFT_MAX: Final = {"s": 0.01}
"""The top of an axis above its lowest value where all values are that, by unit; else 1.

Without one zeros get an axis to 100, and with 1 a time of 24 ms is a flat line.
"""

_LATEST: Final = {"calcs": ["lastNotNull"], "fields": "", "values": False}


def _panel(
    kind: str,
    title: str,
    text: str,
    targets: list[Json],
    defaults: Json,
    overrides: Sequence[Json] = (),
) -> Json:
    return {
        "type": kind,
        "title": title,
        "description": text,
        "datasource": DATASOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": list(overrides)},
    }


def _target(expr: str, letter: str, **more: Any) -> Json:
    base = {"datasource": DATASOURCE, "editorMode": "code", "expr": expr, "refId": letter}
    return base | more


def _range(query: PanelQuery, letter: str) -> Json:
    return _target(
        query.expr, letter, legendFormat=query.legend, range=True, instant=False,
        format="time_series",
    )  # fmt: skip


def _instant(expr: str, legend: str = "__auto") -> Json:
    """Make queries instant: the last value of a range may be hours old but looks current."""
    return _target(expr, "A", legendFormat=legend, range=False, instant=True, format="time_series")


def _joined(columns: Sequence[TableColumn]) -> list[Json]:
    """Targets of a bar chart, which are joined by ``_join``."""
    return [
        _target(column.expr, letter, range=False, instant=True, format="table")
        for column, letter in zip(columns, _LETTERS, strict=False)
    ]


def _join(keys: tuple[str, ...], columns: Sequence[TableColumn]) -> list[Json]:
    """Transformations that join the results to one table, with our column order and titles."""
    # Grafana names the value after its query, unless there is only one query.
    values = [f"Value #{letter}" for letter in _LETTERS] if len(columns) > 1 else ["Value"]
    names = dict(zip(keys, (key.capitalize() for key in keys), strict=True))
    hidden = {"Time": True}
    for value, column in zip(values, columns, strict=False):
        if column.title:
            names[value] = column.title
        else:
            hidden[value] = True
    organize = {
        "excludeByName": hidden,
        "indexByName": {name: place for place, name in enumerate(names)},
        "renameByName": names,
    }
    return [{"id": "merge", "options": {}}, {"id": "organize", "options": organize}]


_COLUMN: Final = "column"
"""The label whose value is the title of a column."""


def _as_columns(columns: Sequence[TableColumn]) -> Json:
    """One query for all columns.

    Grafana makes fields of the results of several queries also where all are empty, and then shows
    their header instead of the text for an empty table (seen on Grafana 12.4).
    """
    expr = " or ".join(
        f'label_replace({column.expr}, "{_COLUMN}", "{column.title}", "", "")' for column in columns
    )
    return _target(expr, "A", range=False, instant=True, format="time_series")


def _columns_of(keys: tuple[str, ...], columns: Sequence[TableColumn]) -> list[Json]:
    """Transformations of such a query's result to a table, with our column order and titles."""
    names = {key: key.capitalize() for key in keys}
    names |= {column.title: column.title for column in columns}
    organize = {
        "excludeByName": {"Time": True},
        "indexByName": {name: place for place, name in enumerate(names)},
        "renameByName": names,
    }
    return [
        {"id": "labelsToFields", "options": {"mode": "columns", "valueLabel": _COLUMN}},
        {"id": "merge", "options": {}},
        {"id": "organize", "options": organize},
    ]


def _field(look: Look, links: Links = (), empty: str = "") -> Json:
    """fieldConfig.defaults of a look."""
    shown: Json = {
        "unit": look.unit,
        "thresholds": {
            "mode": "absolute",
            "steps": [{"color": color, "value": begin} for begin, color in look.steps],
        },
        "color": {"mode": "thresholds"},
        "mappings": _mappings(look.mapping),
    }
    optional = {
        "decimals": look.decimals,
        "min": look.lowest,
        "max": look.highest,
        "links": list(links) or None,
        "noValue": empty or None,
    }
    return shown | {name: value for name, value in optional.items() if value is not None}


def _mappings(mapping: Mapping) -> list[Json]:
    if not mapping:
        return []
    options = {
        value: {"text": text, "color": color, "index": place}
        for place, (value, (text, color)) in enumerate(mapping.items())
    }
    return [{"type": "value", "options": options}]


def _override(title: str, properties: Json) -> Json:
    return {
        "matcher": {"id": "byName", "options": title},
        "properties": [{"id": name, "value": value} for name, value in properties.items()],
    }


def _cell_properties(look: Look) -> Json:
    """Properties of a table's column: its cells are coloured if the look has colours.

    A cell without a value shows a dash, unlike a table without rows, which shows a text.
    """
    if not look.coloured:
        return _field(look, empty="-")
    if look.steps == PLAIN:  # values that are not in the mapping have no colour
        look = replace(look, steps=CLEAR)
    cells = {"custom.cellOptions": {"type": "color-background", "mode": "basic"}}
    return _field(look, empty="-") | cells


def _colored(series: str, color: str) -> Json:
    """A fixed colour of the series with that name, or that match an expression between slashes."""
    kind = "byRegexp" if series.startswith("/") else "byName"
    value = {"mode": "fixed", "fixedColor": color}
    return {
        "matcher": {"id": kind, "options": series},
        "properties": [{"id": "color", "value": value}],
    }


def _column_properties(look: Look) -> Json:
    """Properties of a bar chart's column: all its bars have the look's first colour."""
    return {"unit": look.unit, "color": {"mode": "fixed", "fixedColor": look.steps[0][1]}}
