"""Checks Kafka's Java client, which the query and the archive use, beside kafka-python.

The two take keys, certificates and logins in different forms, so one may log in where the other
does not. The client runs in a process of its own, which is ended at its deadline.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from streaming.checks.finding import CheckResult
from streaming.collector.outcome import ReadOutcome
from streaming.runtime import jars
from streaming.runtime.config import Config

WITHOUT: Final = "query, run and demo on this machine: they use Kafka's Java client"

_PROGRAM: Final = "streaming.query.logins.try_clients"
_LOGIN_TAKES: Final = 3
"""Deadlines of the collector: a client connects first, which it does once, and is asked then."""

_START_S: Final = 30.0
"""For the JVM, which starts in 3 s on two quiet cores, and a first fetch of its jars."""


def of_java_client(config: Config) -> Iterator[CheckResult]:
    """One result for each section that has brokers of its own."""
    sections = {"cluster": (config.cluster.bootstrap, config.cluster.client)}
    if config.bus.bootstrap:
        sections["bus"] = (config.bus_bootstrap, config.bus_client)
    why = _why_not_tried()
    texts = dict.fromkeys(sections, f"{ReadOutcome.NOT_TRIED.value}: {why}") if why else None
    if texts is None:
        asked = {
            name: {"bootstrap": bootstrap, "client": dict(client)}
            for name, (bootstrap, client) in sections.items()
        }
        within_ms = _LOGIN_TAKES * config.collector.deadline_ms
        texts = _tried(
            json.dumps({"sections": asked, "within_ms": within_ms}),
            list(sections),
            _START_S + len(sections) * within_ms / 1_000,
        )
    for name, text in texts.items():
        what = f"Java client of {name}"
        if text:
            yield CheckResult(f"{what}: {text}", WITHOUT)
        else:
            yield CheckResult(f"{what}: {ReadOutcome.ANSWERED.value}")


def _why_not_tried() -> str:
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark is not installed"
    try:
        jars.java()
    except jars.JarError as error:
        return str(error)
    return ""


def _tried(question: str, sections: list[str], within_s: float) -> dict[str, str]:
    """Why the client of each section fails, by name; empty where it does not."""
    with subprocess.Popen(
        [sys.executable, "-m", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as program:
        try:
            answer, said = program.communicate(question, timeout=within_s)
            return {str(name): str(why) for name, why in json.loads(answer).items()}
        except subprocess.TimeoutExpired:
            why = f"{ReadOutcome.FAILED.value}: no answer within {within_s:g} s"
        except ValueError:
            last = said.strip().splitlines()[-1:] or ["it ended without a word"]
            why = f"{ReadOutcome.FAILED.value}: {last[0]}"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
    return dict.fromkeys(sections, why)
