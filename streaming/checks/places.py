"""Checks what the configuration names beside Kafka: folders of this machine, and URLs."""

from __future__ import annotations

import importlib.util
import os
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx2

from streaming.checks.finding import CheckResult
from streaming.collector.outcome import ReadOutcome
from streaming.runtime import jars
from streaming.runtime.config import Config
from streaming.runtime.http_errors import why as why_failed
from streaming.runtime.local_folder import local_folder
from streaming.runtime.ports.probes import ALIVE

_DASHBOARD: Final = "kafka-twin-cluster"
_STORE_ANSWERS_WITHIN_S: Final = 20
_NO_GRAFANA: Final = "dashboards and annotations in Grafana"


def of_places(config: Config) -> Iterator[CheckResult]:
    """One result for each folder that a program writes to, and for each URL that is asked.

    Nothing is written: a folder that does not exist counts as writable if it may be created. URLs
    of metrics are asked with the sources of the collector, those of tokens by a login.
    """
    for key, place, without in _folders(config):
        folder = local_folder(place) if place else None
        if folder is None:  # on another file system than this machine's, which is left to Spark
            continue
        why = _why_not_writable(folder)
        if why:
            yield CheckResult(f"{key}: {why}", without)
        else:
            yield CheckResult(f"{key}: {folder} can be written to")
    if "://" in config.archive.path:
        yield _archive(config)
    if config.grafana.url:
        yield _grafana(config)
    if config.admission.certificate:
        yield _exporter(config)


def _folders(config: Config) -> Iterator[tuple[str, str, str]]:
    """Key and folder, and what does not work without it. Folders of programs that cannot run here
    are left out."""
    yield "health.folder", config.health.folder, "liveness files of programs"
    if importlib.util.find_spec("pyspark") is None:
        return
    query = "kafka-twin query and run on this machine"
    archive = "kafka-twin archive on this machine"
    yield "query.checkpoint", config.query.checkpoint, query
    yield "archive.path", config.archive.path, archive
    yield "archive.checkpoint", config.archive.checkpoint, archive
    if not jars.present("spark"):
        without = f"{query}: Kafka's jars are fetched to it"
        yield "KAFKA_TWIN_CACHE", str(jars.default_cache()), without


def _why_not_writable(folder: Path) -> str:
    """Why this user cannot write to the folder, or cannot create it; empty if that is possible."""
    try:
        nearest = next(path for path in (folder, *folder.parents) if path.exists())
    except OSError as error:
        return f"{folder}: {error.strerror}"
    if not nearest.is_dir():
        return f"{nearest} is not a folder"
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
        why = f"{ReadOutcome.NOT_TRIED.value}: pip install 'kafka-twin[grafana]'"
        return CheckResult(f"{what}: {why}", _NO_GRAFANA)
    # Its package is an extra.
    from streaming.grafana.client import GrafanaClient, GrafanaError

    try:
        GrafanaClient(config.grafana).dashboard(_DASHBOARD)
    except GrafanaError as error:
        return CheckResult(f"grafana.url: {error}", _NO_GRAFANA)
    return CheckResult(f"{what}: {ReadOutcome.ANSWERED.value}")


def _archive(config: Config) -> CheckResult:
    """Whether the store of the archive answers. An archive that has no rows yet is fine."""
    what, without = f"archive.path {config.archive.path}", "kafka-twin archive, and the past"
    if importlib.util.find_spec("deltalake") is None:
        why = f"{ReadOutcome.NOT_TRIED.value}: pip install 'kafka-twin[archive]'"
        return CheckResult(f"{what}: {why}", without)
    # Its package is an extra.
    from streaming.history.archive.delta import ArchiveError, ArchiveTables

    answers: list[str] = []

    def look() -> None:
        try:
            ArchiveTables(config.archive.path).newest_cycles()
            answers.append("")
        except ArchiveError as error:
            answers.append(str(error))

    # The library has no deadline, and asks a store that is away again for minutes.
    asking = threading.Thread(target=look, daemon=True)
    asking.start()
    asking.join(_STORE_ANSWERS_WITHIN_S)
    why = answers[0] if answers else f"{what}: no answer within {_STORE_ANSWERS_WITHIN_S} s"
    return (
        CheckResult(why, without) if why else CheckResult(f"{what}: {ReadOutcome.ANSWERED.value}")
    )


def _exporter(config: Config) -> CheckResult:
    """Whether the exporter that the admission webhook asks is there."""
    what = f"admission.exporter {config.admission.exporter}"
    without = "kafka-twin admission: its answer is that of admission.when_unknown"
    try:
        answer = httpx2.get(
            f"{config.admission.exporter}{ALIVE}", trust_env=False, follow_redirects=False,
            verify=ssl.create_default_context(), timeout=config.collector.deadline_ms / 1_000,
        )  # fmt: skip
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return CheckResult(f"{what}: {ReadOutcome.FAILED.value}: {why_failed(error)}", without)
    if answer.status_code != httpx2.codes.OK:
        status = f"it answered {answer.status_code}"
        return CheckResult(f"{what}: {ReadOutcome.FAILED.value}: {status}", without)
    return CheckResult(f"{what}: {ReadOutcome.ANSWERED.value}")
