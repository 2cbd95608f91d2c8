"""Compares the series of an exposition with docs/metrics.md."""

from __future__ import annotations

import re
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from docs.pages.markdown import DOCS


@dataclass(frozen=True, slots=True)
class Documented:
    """A row of the page."""

    type: str
    labels: frozenset[str]
    unit: str
    meaning: str


def on_page() -> dict[str, Documented]:
    """The metrics that docs/metrics.md describes, by their names.

    Raises:
        AssertionError: a name stands twice.
    """
    metrics: dict[str, Documented] = {}
    every: frozenset[str] = frozenset()  # labels of all series of the section
    for line in (DOCS / "metrics.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            has_cluster = "kafka_exporter" not in line
            every = frozenset({"cluster"} if has_cluster else ())
        elif line.startswith("Every series has `"):
            every = _names(line)
        elif line.startswith("| `kafka_"):
            # Bars within a cell are escaped.
            name, kind, labels, unit, meaning = re.split(r"(?<!\\)\|", line)[1:-1]
            [name] = _names(name)
            assert name not in metrics, name
            row = Documented(kind.strip(), every | _names(labels), unit.strip(), meaning.strip())
            metrics[name] = row
    return metrics


def undocumented(exposition: str) -> list[str]:
    """What is wrong with series of an exposition: the page lacks them, or says something else.

    A histogram's bucket has the label ``le`` as well.
    """
    page = on_page()
    wrong = []
    for family in text_string_to_metric_families(exposition):
        name = family.name + ("_total" if family.type == "counter" else "")
        row = page.get(name)
        if row is None:
            wrong.append(f"{name} is not in docs/metrics.md")
        elif (row.type, row.meaning) != (family.type, family.documentation):
            wrong.append(f"{name} is another in docs/metrics.md: {row.type}, {row.meaning}")
        elif not row.unit:
            wrong.append(f"{name} has no unit in docs/metrics.md")
        else:
            other = {
                labels
                for sample in family.samples
                if (labels := frozenset(sample.labels) - {"le"}) != row.labels
            }
            wrong += [f"{name} has the labels {', '.join(sorted(labels))}" for labels in other]
    return wrong


def _names(cell: str) -> frozenset[str]:
    return frozenset(re.findall(r"`([^`]+)`", cell))
