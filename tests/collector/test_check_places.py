"""``kafka-twin check`` on folders, URLs and the user of the machine."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from streaming.checks.machine import of_machine
from streaming.checks.places import of_places
from streaming.lab.local_cluster import free_base_port
from streaming.runtime.config import (
    AdmissionConfig,
    ArchiveConfig,
    Config,
    GrafanaConfig,
    HealthConfig,
    QueryConfig,
)
from streaming.runtime.program_metrics import served
from tests.grafana.stub import a_grafana

NOBODY = 65_534


def lines(config: Config) -> dict[str, str]:
    """The printed lines, by the setting that they are about."""
    said = map(str, of_places(config))
    return {line.split(": ")[1].split(" ")[0]: line for line in said}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KAFKA_TWIN_CACHE", str(tmp_path / "jars"))
    return tmp_path


@pytest.fixture
def read_only(cache: Path) -> Iterator[Path]:
    """A folder of somebody else; root may write everywhere, so it is another user meanwhile."""
    is_root = os.geteuid() == 0
    cache.chmod(0o555)
    if is_root:
        for folder in (cache, *cache.parents[:-1]):
            folder.chmod(folder.stat().st_mode | 0o011)
        os.seteuid(NOBODY)
    try:
        yield cache
    finally:
        if is_root:
            os.seteuid(0)
        cache.chmod(0o755)


def test_folders_that_may_be_written_to_or_created_are_fine(cache: Path) -> None:
    config = Config(
        query=QueryConfig(checkpoint=str(cache / "a" / "b")),
        archive=ArchiveConfig(path=f"file://{cache}/past", checkpoint=f"file:{cache}/c"),
    )
    assert lines(config) == {
        "query.checkpoint": f"ok: query.checkpoint: {cache}/a/b can be written to",
        "archive.checkpoint": f"ok: archive.checkpoint: {cache}/c can be written to",
        "archive.path": f"ok: archive.path file://{cache}/past: asked and answered",
        "KAFKA_TWIN_CACHE": f"ok: KAFKA_TWIN_CACHE: {cache}/jars can be written to",
    }
    assert list(cache.iterdir()) == []


def test_a_folder_that_may_not_be_written_to_is_named_with_its_user(read_only: Path) -> None:
    config = Config(health=HealthConfig(folder=str(read_only / "a" / "b")))
    assert str(next(of_places(config))) == (
        f"missing: health.folder: user {os.geteuid()} may not write to {read_only}, or its file "
        "system is read-only -> liveness files of programs"
    )


def test_a_file_in_the_place_of_a_folder_is_named(cache: Path) -> None:
    (cache / "file").touch()
    said = lines(Config(health=HealthConfig(folder=str(cache / "file" / "below"))))
    assert said["health.folder"].startswith(
        f"missing: health.folder: {cache}/file is not a folder -> liveness"
    )


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("secret", "ok: grafana.url {url}: asked and answered"),
        ("other", "missing: grafana.url: {url}: dashboard kafka-twin-cluster: 401: Invalid API"),
    ],
)
def test_grafana_is_asked_with_the_login(cache: Path, token: str, said: str) -> None:
    with a_grafana() as stub:
        config = Config(grafana=GrafanaConfig(url=stub.url, token=token))
        assert lines(config)["grafana.url"].startswith(said.format(url=stub.url))


def test_a_grafana_that_is_away_is_named(cache: Path) -> None:
    config = Config(grafana=GrafanaConfig(url="http://127.0.0.1:1", token="x"))
    assert "http://127.0.0.1:1: dashboard" in lines(config)["grafana.url"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("file://{folder}/archive", "ok: archive.path {path}: asked and answered"),
        (
            "nowhere://bucket/archive",
            "missing: archive.path: {path} cannot be read: Unknown scheme: nowhere. -> ",
        ),
    ],
)
def test_the_store_of_the_archive_is_asked(cache: Path, path: str, said: str) -> None:
    given = path.format(folder=cache)
    found = [str(each) for each in of_places(Config(archive=ArchiveConfig(path=given)))]
    assert [line for line in found if line.startswith(said.format(path=given))], found


def test_the_exporter_that_the_admission_webhook_asks_is_there_or_not(cache: Path) -> None:
    port = free_base_port(span=1)
    url = f"http://127.0.0.1:{port}"
    config = Config(admission=AdmissionConfig(exporter=url, certificate="tls.crt", key="tls.key"))
    with served(CollectorRegistry(), "127.0.0.1", port, "metrics.port"):
        assert lines(config)["admission.exporter"] == (
            f"ok: admission.exporter {url}: asked and answered"
        )
    assert lines(config)["admission.exporter"].startswith(
        f"missing: admission.exporter {url}: failed: Connection refused -> kafka-twin admission"
    )


def test_a_user_without_a_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    without = [user.pw_uid for user in pwd.getpwall()]
    stranger = next(uid for uid in range(1_000_680_123, 1_000_680_999) if uid not in without)
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    assert any(f"user {stranger} has no name here" in str(finding) for finding in of_machine())
    monkeypatch.undo()
    assert not any("has no name here" in str(finding) for finding in of_machine())
