"""Loggers of modules, which live longer than a configuration."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from streaming.runtime import logs


@pytest.fixture
def as_before() -> Iterator[None]:
    """The root logger and the configuration are given back."""
    root, held = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**held)


def test_a_logger_that_was_used_follows_the_next_configuration(as_before: None) -> None:
    log = structlog.get_logger("tests")
    for _ in range(2):
        logs.configure()
        with capture_logs() as lines:
            log.info("begun")
        assert [line["event"] for line in lines] == ["begun"]


def test_no_line_shows_a_password_that_stands_in_a_url(
    as_before: None, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure()
    url = "https://me:hunter2@host:1/metrics"
    structlog.get_logger("tests").info("unavailable", what="metrics", why=f"{url}: late")
    logging.getLogger("a.library").warning("cannot fetch %s", url)
    said = capsys.readouterr().err
    assert "hunter2" not in said
    assert said.count("https://***@host:1/metrics") == 2


def test_what_wins_over_the_file_is_named_without_its_value(
    as_before: None, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure()
    logs.say_what_wins(Path("twin.toml"), {"KAFKA_TWIN_CONFIG": "twin.toml", "HOME": "/tmp"})
    logs.say_what_wins(None, {"KAFKA_TWIN_BUS_SHARDS": "4"})
    assert capsys.readouterr().err == ""
    given = {
        "KAFKA_TWIN_CLUSTER_CLIENT_SASL_PLAIN_PASSWORD": "hunter2",
        "KAFKA_TWIN_BUS_SHARDS": "4",
        "KAFKA_TWIN_DEFAULTS": "/opt/defaults.toml",
    }
    logs.say_what_wins(Path("twin.toml"), given)
    [line] = capsys.readouterr().err.splitlines()
    assert "the environment wins over the file" in line
    names = "KAFKA_TWIN_BUS_SHARDS, KAFKA_TWIN_CLUSTER_CLIENT_SASL_PLAIN_PASSWORD"
    assert f"settings='{names}'" in line
    assert "file=twin.toml" in line
    assert "defaults=/opt/defaults.toml" in line
    assert "hunter2" not in line
