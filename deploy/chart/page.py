"""docs/helm.md: how to install the chart, and all its values."""

from __future__ import annotations

from deploy.chart.chart import HERE, values_rows, version


def page() -> str:
    """The text of the page."""
    header = ("value", "default", "meaning")
    lines = [header, ("---",) * 3, *values_rows()]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    text = (HERE / "page.md").read_text(encoding="utf-8")
    return text.replace("@version@", version()).replace("@table@", table)
