"""Checks what the configuration names beside Kafka: folders of this machine, and Grafana."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from streaming.checks.finding import CheckResult
from streaming.collector.outcome import Outcome
from streaming.runtime import jars
from streaming.runtime.config import Config
from streaming.runtime.local_folder import local_folder

_DASHBOARD: Final = "kafka-twin-cluster"
_NO_GRAFANA: Final = "dashboards and annotations in Grafana"


def of_places(config: Config) -> Iterator[CheckResult]:
    """One result for each folder that a program writes to, and one for Grafana.

    Nothing is written: a folder that does not exist counts as writable if it may be created.
    """
    for key, (folder, without) in _folders(config).items():
        why = _why_not_writable(folder)
        if why:
            yield CheckResult(f"{key}: {why}", without)
        else:
            yield CheckResult(f"{key}: {folder} can be written to")
    if config.grafana.url:
        yield _grafana(config)


def _folders(config: Config) -> dict[str, tuple[Path, str]]:
    """Folder and what does not work without it, by key. What is on another file system than this
    machine's is left to Spark."""
    query = "kafka-twin query and run on this machine"
    archive = "kafka-twin archive on this machine"
    named = {
        "query.checkpoint": (config.query.checkpoint, query),
        "archive.path": (config.archive.path, archive),
        "archive.checkpoint": (config.archive.checkpoint, archive),
        "health.folder": (config.health.folder, "liveness files of programs"),
        "KAFKA_TWIN_CACHE": (str(jars.default_cache()), f"{query}: Kafka's jars are kept there"),
    }
    local = {key: (local_folder(path), why) for key, (path, why) in named.items() if path}
    return {key: (folder, why) for key, (folder, why) in local.items() if folder is not None}


def _why_not_writable(folder: Path) -> str:
    """Why this user cannot write to the folder, or cannot create it; empty if that is possible."""
    try:
        nearest = next(path for path in (folder, *folder.parents) if path.exists())
    except OSError as error:
        return f"{folder}: {error.strerror}"
    if not nearest.is_dir():
        return f"{nearest} is no folder"
    # Not for the real user, who may have started a program of another one.
    may = os.access(
        nearest, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids
    )
    if may:
        return ""
    user = os.geteuid()
    return f"user {user} may not write to {nearest}, or its file system is read-only"


def _grafana(config: Config) -> CheckResult:
    """Whether Grafana takes the login. A dashboard that is not published yet is fine."""
    what = f"grafana.url {config.grafana.url}"
    if importlib.util.find_spec("grafana_api") is None:
        why = f"{Outcome.NOT_TRIED.value}: pip install 'kafka-twin[grafana]'"
        return CheckResult(f"{what}: {why}", _NO_GRAFANA)
    # Its package is an extra.
    from streaming.grafana.client import GrafanaClient, GrafanaError

    try:
        GrafanaClient(config.grafana).dashboard(_DASHBOARD)
    except GrafanaError as error:
        return CheckResult(f"grafana.url: {error}", _NO_GRAFANA)
    return CheckResult(f"{what}: {Outcome.ANSWERED.value}")
