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
    """The result for the section of the bus: the watched cluster's where the bus is there."""
    name = "bus" if config.bus.bootstrap else "cluster"
    text = f"{ReadOutcome.NOT_TRIED.value}: {why}" if (why := _why_not_tried()) else ""
    if not text:
        within_ms = _LOGIN_TAKES * config.collector.deadline_ms
        section = {"bootstrap": config.bus_bootstrap, "client": config.bus_client}
        asked = json.dumps({"sections": {name: section}, "within_ms": within_ms})
        text = _tried(asked, name, _START_S + within_ms / 1_000)
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


def _tried(question: str, section: str, within_s: float) -> str:
    """Why the client of the section fails; empty where it does not."""
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
            return str(json.loads(answer)[section])
        except subprocess.TimeoutExpired:
            return f"{ReadOutcome.FAILED.value}: no answer within {within_s:g} s"
        except ValueError:
            last = said.strip().splitlines()[-1:] or ["it ended without a word"]
            return f"{ReadOutcome.FAILED.value}: {last[0]}"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
