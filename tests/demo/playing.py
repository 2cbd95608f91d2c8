"""One run of the demo that plays all its incidents, watched meanwhile."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from grafana.__main__ import DASHBOARDS
from streaming.lab.local_cluster import free_base_port
from streaming.lab.scripts.by_name import SCRIPTS
from tests.documented import undocumented
from tests.grafana.pages import panels

PLAYED = sorted(SCRIPTS, key=lambda script: script != "slow-leader")
"""Its suspicion lasts five minutes, in which the others are played."""

WHOLE_S = 2_400
"""Eleven minutes on quiet cores; beside other tests, as many as it takes."""

PORTS = range(14_000, 18_000)
"""Only the demo uses them: clusters that start at the same moment may find the same free ports."""

NEEDS_PROMETHEUS = pytest.mark.skipif(
    shutil.which("prometheus") is None and not os.environ.get("CI"),
    reason="prometheus is not on the PATH; it is in Debian's package prometheus",
)
LIMITS = [pytest.mark.timeout(WHOLE_S + 60), NEEDS_PROMETHEUS]


@dataclass
class Played:
    """The output of the demo, the alerts of Prometheus meanwhile, and the exit code."""

    ports: dict[str, int]
    printed: list[str] = field(default_factory=list)
    printed_at_s: list[float] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)
    states: list[dict[str, str]] = field(default_factory=list)  # of alerts, one look a second
    empty: list[str] = field(default_factory=list)  # queries of panels without an answer
    undocumented: list[str] | None = None  # what is wrong with series that the exporter serves
    notified: set[str] = field(default_factory=set)  # alerts that the Alertmanager received
    without_fetches: list[str] | None = None  # partitions of which no tap has seen a fetch
    code: int | None = None
    tap: str = ""  # what it logged
    rolled: list[str] = field(default_factory=list)  # nodes whose request log was rolled
    left: list[str] = field(default_factory=list)  # command lines of processes that did not end

    @property
    def prometheus(self) -> str:
        return f"http://127.0.0.1:{self.ports['--prometheus-port']}"

    @property
    def exporter(self) -> str:
        return f"http://127.0.0.1:{self.ports['--metrics-port']}"

    @property
    def bootstrap(self) -> list[str]:
        """The brokers' addresses."""
        return [f"127.0.0.1:{self.ports['--port'] + node}" for node in (1, 2, 3)]

    def note(self, line: str) -> None:
        """Keep a line that was printed just now."""
        self.printed_at_s.append(time.monotonic())
        self.printed.append(line)

    def prints(self, text: str) -> bool:
        return any(text in line for line in self.printed)

    def first_printed_s(self, text: str) -> float:
        """Monotonic seconds at which a line with that text was printed first."""
        return next(
            at_s
            for at_s, line in zip(self.printed_at_s, self.printed, strict=False)
            if text in line
        )


def play(home: Path, onlookers: list[Callable[[Played], None]]) -> Played:
    """The record of a demo that has played all scripts on one cluster and has ended by itself.

    Each onlooker has a thread of its own, and must end when the demo is over.
    """
    base = free_base_port(60, PORTS)
    record = Played({"--port": base, "--metrics-port": base + 50, "--prometheus-port": base + 54})
    command = [sys.executable, "-m", "streaming", "demo", "--home", str(home)]
    for name, port in record.ports.items():
        command += [name, str(port)]
    for script in PLAYED:
        command += ["--script", script]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    threads = [
        threading.Thread(target=each, args=(record,), daemon=True) for each in (watch, *onlookers)
    ]
    for thread in threads:
        thread.start()
    give_up = threading.Timer(WHOLE_S, process.terminate)
    give_up.start()
    try:
        assert process.stdout is not None
        for line in process.stdout:  # until it ends
            record.note(line.rstrip())
        record.code = process.wait(200)
    finally:
        give_up.cancel()
        if process.poll() is None:
            process.terminate()
            process.wait(200)
        record.is_over.set()
        for thread in threads:
            thread.join(60)
    log = home / "twin" / "logs" / "tap.log"
    assert log.exists(), f"the demo ended with {record.code}: {record.printed}"
    record.tap = log.read_text()
    record.rolled = [path.parent.name for path in home.glob("cluster/node*/request.log.1")]
    record.left = [command for command in commands() if str(home) in command]
    print("\n".join(record.printed))
    return record


def commands() -> list[str]:
    """Command lines of the processes of this machine, where it has /proc."""
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            commands.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return commands


def watch(record: Played) -> None:
    """Look at the alerts each second, and at all panels once, until the demo ends."""
    panels_due = True
    while not record.is_over.wait(1):
        look(record)
        if record.without_fetches != [] and record.prints("the twin is live"):
            record.without_fetches = without_fetches(record.exporter)
        if panels_due and record.prints("script stuck-bootstrap came true"):
            panels_due = False
            # The panels take longest, and the demo ends half a minute later.
            metrics = httpx2.get(f"{record.exporter}/metrics", timeout=100).text
            record.undocumented = undocumented(metrics)
            record.empty = empty_panels(record.prometheus)


def look(record: Played) -> None:
    """States of alerts now, by Prometheus; and which the Alertmanager knows."""
    try:
        answer = httpx2.get(f"{record.prometheus}/api/v1/alerts", timeout=3).json()
        alerts = {a["labels"]["alertname"]: a["state"] for a in answer["data"]["alerts"]}
        record.states.append(alerts)
        manager = f"http://127.0.0.1:{record.ports['--prometheus-port'] + 3}/api/v2/alerts"
        record.notified |= {a["labels"]["alertname"] for a in httpx2.get(manager, timeout=3).json()}
    except (httpx2.TransportError, ValueError, KeyError):
        pass  # not up yet, or not any more


def without_fetches(exporter: str) -> list[str] | None:
    """Replicated partitions of which no fetch is known: a tap alone reads high watermarks."""
    try:
        answer = httpx2.get(f"{exporter}/api/v1/partitions?limit=1000", timeout=3).json()
    except (httpx2.TransportError, ValueError):
        return None
    return [f"{p['topic']}-{p['partition']}" for p in answer["partitions"]
            if len(p["replicas"]) > 1 and p["high_watermark_source"] != "leader"]  # fmt: skip


def empty_panels(prometheus: str) -> list[str]:
    """Queries without an answer, of panels that do not say why they may have none."""
    every = {"cluster": "demo", "topic": ".*", "partition": ".*"}
    empty = []
    with httpx2.Client(timeout=100) as client:  # a client for each query takes 30 ms of CPU time
        for dashboard in DASHBOARDS:
            one = dashboard.uid == "kafka-twin-partition"
            values = every | ({"topic": "orders", "partition": "0"} if one else {})
            for panel in panels(dashboard):
                if panel["fieldConfig"]["defaults"].get("noValue"):
                    continue
                for target in panel["targets"]:
                    expr = re.sub(r"\$__(rate_interval|range)", "1m", target["expr"])
                    expr = re.sub(r"\$(\w+)", lambda name, v=values: v.get(name[1], ".*"), expr)
                    answer: Any = client.get(
                        f"{prometheus}/api/v1/query", params={"query": expr}
                    ).json()
                    if not answer["data"]["result"]:
                        empty.append(f"{panel['title']}: {expr}")
    return empty
