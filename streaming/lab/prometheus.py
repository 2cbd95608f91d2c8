"""Prometheus and Alertmanager for the demo, with the project's alert rules.

They are used if installed, and never downloaded.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from streaming.lab.cluster_config import HOST
from streaming.runtime import jars
from streaming.runtime.supervise import Child

WAITS_CUT_TO_S: Final = 10
"""Cap on `for` and `keep_firing_for` of alerts: their minutes are too long for a demo."""

HOW: Final = (
    "alerts are left out: there is no prometheus on the PATH "
    "(apt-get install prometheus prometheus-alertmanager, or brew install prometheus alertmanager)"
)
_ALERTMANAGERS: Final = ("prometheus-alertmanager", "alertmanager")  # Debian's name, upstream's
_WAIT = re.compile(r"^(\s+(?:for|keep_firing_for): )(\d+)([smh])$", re.MULTILINE)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600}


def available() -> bool:
    """Prometheus is installed."""
    return shutil.which("prometheus") is not None


def programs(
    folder: Path, scraped: Sequence[int], port: int, alertmanager_port: int
) -> list[Child]:
    """Write the configuration of Prometheus and, if installed, Alertmanager; return both.

    ``scraped`` are the ports of the twin's programs.
    """
    deploy = jars.declared_in()
    rules = folder / "rules"
    rules.mkdir(parents=True, exist_ok=True)
    for path in (deploy / "prometheus" / "rules").glob("*.rules.yml"):
        (rules / path.name).write_text(with_short_waits(path.read_text()))
    alertmanager = next(filter(None, map(shutil.which, _ALERTMANAGERS)), None)
    config = folder / "prometheus.yml"
    # YAML is a superset of JSON.
    config.write_bytes(
        msgspec.json.encode(_config(rules, scraped, alertmanager_port if alertmanager else None))
    )
    children = [
        Child(
            "prometheus",
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
             f"--web.listen-address={HOST}:{port}"],
            log_file=folder / "prometheus.log",
        )
    ]  # fmt: skip
    if alertmanager:
        children.append(
            Child(
                "alertmanager",
                [alertmanager, f"--config.file={deploy / 'alertmanager' / 'alertmanager.yml'}",
                 f"--storage.path={folder / 'alertmanager'}", "--cluster.listen-address=",
                 f"--web.listen-address={HOST}:{alertmanager_port}"],
                log_file=folder / "alertmanager.log",
            )
        )  # fmt: skip
    return children


def with_short_waits(rules: str) -> str:
    """The rules with every `for` and `keep_firing_for` cut to at most WAITS_CUT_TO_S."""

    def cut(wait: re.Match[str]) -> str:
        seconds = min(int(wait[2]) * _SECONDS[wait[3]], WAITS_CUT_TO_S)
        return f"{wait[1]}{seconds}s"

    return _WAIT.sub(cut, rules)


def _config(rules: Path, scraped: Sequence[int], alertmanager_port: int | None) -> dict[str, Any]:
    def at(*ports: int) -> list[dict[str, Any]]:
        return [{"targets": [f"{HOST}:{port}" for port in ports]}]

    config: dict[str, Any] = {
        "global": {"scrape_interval": "2s", "evaluation_interval": "2s"},
        "rule_files": [f"{rules}/*.rules.yml"],
        "scrape_configs": [{"job_name": "kafka-twin", "static_configs": at(*scraped)}],
    }
    if alertmanager_port is not None:
        config["alerting"] = {"alertmanagers": [{"static_configs": at(alertmanager_port)}]}
    return config
