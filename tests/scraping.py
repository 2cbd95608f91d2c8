"""The samples that a program serves at /metrics, parsed with Prometheus' own parser."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.web import get
from twin.declarations.declare import Metric

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None and not os.environ.get("CI"),
    reason="promtool is not on the PATH; it is in Debian's package prometheus",
)


@dataclass(frozen=True)
class Scraped:
    """One exposition."""

    text: str

    def series(self, name: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series with that name, without the prefix kafka_twin_."""
        return [
            (dict(sample.labels), sample.value)
            for family in text_string_to_metric_families(self.text)
            for sample in family.samples
            if sample.name == f"kafka_twin_{name}"
        ]

    def value(self, name: str, **labels: str) -> float:
        """The value of the only series of that name that has these labels."""
        [value] = [v for has, v in self.series(name) if labels.items() <= has.items()]
        return value

    def families(self) -> dict[str, tuple[str, str]]:
        """HELP and TYPE of each family, by its name as it is declared."""
        return {
            family.name + ("_total" if family.type == "counter" else ""): (
                family.documentation,
                family.type,
            )
            for family in text_string_to_metric_families(self.text)
        }

    def label_names(self) -> set[frozenset[str]]:
        """The sets of labels that series have."""
        return {
            frozenset(sample.labels)
            for family in text_string_to_metric_families(self.text)
            for sample in family.samples
        }


def scrape(port: int, host: str = "127.0.0.1") -> Scraped:
    """Scrape a program once; it must answer."""
    status, text = get(f"http://{host}:{port}/metrics")
    assert status == 200, text
    return Scraped(text)


def assert_declared(scraped: Scraped, declared: Iterable[Metric]) -> None:
    """Every family that is declared is there and no other, with its HELP and TYPE."""
    wanted = {metric.series_name: (metric.help, metric.type) for metric in declared}
    assert scraped.families() == wanted
    assert all("cluster" in labels for labels in scraped.label_names())


def judged(scraped: Scraped) -> str:
    """The complaints of promtool."""
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=scraped.text, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr + ("" if done.returncode == 0 else f"{done.returncode}")
