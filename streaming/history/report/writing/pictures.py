"""The pictures of a report: inline SVG that stretches with the page, without any script or style.

Places along the time are percentages, so that text keeps its size in a narrow window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from streaming.history.moment import time_text
from streaming.history.report.model import Report
from streaming.history.report.writing.parts import Document

_HEIGHT: Final = 44
_MARKS: Final = 18
_MOST_MARKS: Final = 100
_MARK_WIDTH: Final = 5.0
"""Percent of the width: causes that are nearer to each other share a mark."""

_ROWS: Final = (
    ("offline", "Partitions offline", "bad"),
    ("under_min_isr", "Partitions under min ISR", "warn"),
    ("at_risk", "Partitions at risk", "calm"),
    ("brokers_down", "Brokers down", "bad"),
)


def pictures(report: Report, document: Document) -> str:
    """Four rows over the same time, with the causes above them; empty if nothing was ever wrong."""
    series = report.series
    rows = [(getattr(series, name), title, kind) for name, title, kind in _ROWS]
    if not any(any(values) for values, _, _ in rows) or len(series.at_ms) < 2:
        return ""
    begin_ms, end_ms = series.at_ms[0], series.at_ms[-1]
    marks = "".join(_marks(document.causes[:_MOST_MARKS], begin_ms, end_ms))
    figures = "".join(
        f"<figcaption>{title}<b>{_most(values)}</b></figcaption>"
        f"{_steps(series.at_ms, values, kind, title)}"
        for values, title, kind in rows
    )
    return (
        f'<figure class="pictures"><figcaption>Causes</figcaption>'
        f'<svg class="marks" width="100%" height="{_MARKS}" role="group" aria-label="Causes">'
        f"{marks}</svg>{figures}"
        f'<p class="axis"><span>{time_text(begin_ms)[11:19]}</span>'
        f"<span>UTC</span><span>{time_text(end_ms)[11:19]}</span></p></figure>"
    )


def _most(values: Sequence[int]) -> str:
    return f"at most {max(values)}" if any(values) else "never"


def _steps(at_ms: Sequence[int], values: Sequence[int], kind: str, title: str) -> str:
    """Each value until the next cycle, as high as it is large."""
    most = max(*values, 1)
    bars = []
    for first, last in _stretches(values):
        if not values[first]:
            continue
        end_ms = at_ms[min(last + 1, len(at_ms) - 1)]
        left, right = (_percent(ms, at_ms[0], at_ms[-1]) for ms in (at_ms[first], end_ms))
        height = max(round((_HEIGHT - 4) * values[first] / most, 1), 3)
        bars.append(
            f'<rect class="{kind}" x="{left:.3f}%" y="{_HEIGHT - height:.1f}" '
            f'width="{max(right - left, 0.15):.3f}%" height="{height:.1f}"/>'
        )
    return (
        f'<svg width="100%" height="{_HEIGHT}" role="img" '
        f'aria-label="{title}: {_most(values)}">{"".join(bars)}</svg>'
    )


def _stretches(values: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last place of each stretch of equal values."""
    begin = 0
    for number in range(1, len(values) + 1):
        if number == len(values) or values[number] != values[begin]:
            yield begin, number - 1
            begin = number


def _marks(causes: Sequence[tuple[int, int]], begin_ms: int, end_ms: int) -> Iterator[str]:
    near: list[list[tuple[int, float]]] = []
    for number, at_ms in causes:
        left = _percent(at_ms, begin_ms, end_ms)
        if near and left - near[-1][0][1] < _MARK_WIDTH:
            near[-1].append((number, left))
        else:
            near.append([(number, left)])
    for group in near:
        (number, left), last = group[0], group[-1][0]
        anchor = "start" if left < 2 else "end" if left > 98 else "middle"
        text = f"{number}" if last == number else f"{number}-{last}"
        yield (
            f'<a href="#cause-{number}" aria-label="Cause {text}">'
            f'<text x="{left:.3f}%" y="13" text-anchor="{anchor}">{text}</text></a>'
        )


def _percent(at_ms: int, begin_ms: int, end_ms: int) -> float:
    return 100 * (at_ms - begin_ms) / max(end_ms - begin_ms, 1)
