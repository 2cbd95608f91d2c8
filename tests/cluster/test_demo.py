"""The demo plays its incidents, and the alerts of a real Prometheus fire and resolve."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from grafana.__main__ import DASHBOARDS
from streaming.lab import processes
from streaming.lab.cluster import free_base_port
from streaming.lab.prometheus import WAITS_CUT_TO_S, with_short_waits
from streaming.lab.scenarios import SCRIPTS
from tests.cluster.asking import until

ALERT_OF = {
    "failover": "KafkaTwinPartitionOffline",
    "thin-leader": "KafkaTwinColdLeaderElected",
    "stuck-bootstrap": "KafkaTwinBootstrapStuck",
    "slow-leader": "KafkaTwinSlowLeaderSuspected",
}
PLAYED = sorted(SCRIPTS, key=lambda script: script != "slow-leader")
"""Its suspicion lasts five minutes, in which the others are played."""

WHOLE_S = 1_200

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.spark,
    pytest.mark.timeout(WHOLE_S + 60),
    pytest.mark.skipif(
        shutil.which("prometheus") is None and not os.environ.get("CI"),
        reason="prometheus is not on the PATH; it is in Debian's package prometheus",
    ),
]


@dataclass
class Played:
    """What was printed, what Prometheus said meanwhile, and how it ended."""

    ports: dict[str, int]
    home: Path
    printed: list[str] = field(default_factory=list)
    states: list[dict[str, str]] = field(default_factory=list)  # of alerts, one look a second
    empty: list[str] = field(default_factory=list)  # queries of panels without an answer
    notified: set[str] = field(default_factory=set)  # alerts that the Alertmanager was told
    code: int | None = None
    process: subprocess.Popen[str] | None = None
    threads: list[threading.Thread] = field(default_factory=list)

    @property
    def prometheus(self) -> str:
        return f"http://127.0.0.1:{self.ports['--prometheus-port']}"

    def said(self, text: str) -> bool:
        return any(text in line for line in self.printed)

    def wait(self) -> None:
        """Until the demo has ended."""
        assert self.process is not None
        self.code = self.process.wait(WHOLE_S)
        for thread in self.threads:
            thread.join(30)


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """All scripts, one after the other, on one cluster; watched until it ends by itself."""
    home = tmp_path_factory.mktemp("demo")
    base = free_base_port(60)
    record = Played({"--port": base, "--metrics-port": base + 50, "--prometheus-port": base + 51},
                    home)  # fmt: skip
    command = [sys.executable, "-m", "streaming", "demo", "--home", str(home)]
    for name, port in record.ports.items():
        command += [name, str(port)]
    for script in PLAYED:
        command += ["--script", script]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            record.printed.append(line.rstrip())

    def watch() -> None:
        deadline = time.monotonic() + WHOLE_S
        panels_due = True
        while process.poll() is None and time.monotonic() < deadline:
            look(record)
            if panels_due and record.said("script stuck-bootstrap came true"):
                panels_due = False
                record.empty = empty_panels(record.prometheus)
            time.sleep(1)

    record.process = process
    record.threads = [threading.Thread(target=do, daemon=True) for do in (listen, watch)]
    for thread in record.threads:
        thread.start()
    try:
        yield record
    finally:
        if process.poll() is None:
            process.terminate()
        record.wait()


@pytest.fixture
def played(demo: Played) -> Played:
    """When every script has been played, or the demo has ended before."""

    def over() -> bool:
        return demo.said(f"script {PLAYED[-1]} came true") or demo.said("Error: ")

    until(over, WHOLE_S, "the scripts are not over")
    return demo


@pytest.fixture
def ended(demo: Played) -> Played:
    """When the demo has ended: its last alert is resolved after five minutes."""
    demo.wait()
    print("\n".join(demo.printed))
    return demo


def look(record: Played) -> None:
    """States of alerts now, by Prometheus; and which the Alertmanager knows."""
    try:
        told = httpx2.get(f"{record.prometheus}/api/v1/alerts", timeout=3).json()["data"]["alerts"]
        record.states.append({a["labels"]["alertname"]: a["state"] for a in told})
        manager = f"http://127.0.0.1:{record.ports['--prometheus-port'] + 3}/api/v2/alerts"
        record.notified |= {a["labels"]["alertname"] for a in httpx2.get(manager, timeout=3).json()}
    except (httpx2.TransportError, ValueError, KeyError):
        pass  # not up yet, or not any more


def empty_panels(prometheus: str) -> list[str]:
    """Queries without an answer, of panels that do not say why they may have none."""
    chosen = {"cluster": "demo", "topic": ".*", "partition": ".*"}
    found = []
    for dashboard in DASHBOARDS:
        one = dashboard.uid == "kafka-twin-partition"
        values = chosen | ({"topic": "orders", "partition": "0"} if one else {})
        for panel in dashboard.json()["panels"]:
            for target in panel.get("targets", ()):
                expr = re.sub(r"\$__(rate_interval|range)", "1m", target["expr"])
                expr = re.sub(r"\$(\w+)", lambda name, v=values: v.get(name[1], ".*"), expr)
                answer: Any = httpx2.get(f"{prometheus}/api/v1/query", params={"query": expr},
                                         timeout=10).json()  # fmt: skip
                says_why = panel["fieldConfig"]["defaults"].get("noValue")
                if not says_why and not answer["data"]["result"]:
                    found.append(f"{panel['title']}: {expr}")
    return found


@pytest.mark.first
def test_it_plays_while_other_tests_run(demo: Played):
    assert demo.code is None


@pytest.mark.parametrize("script", PLAYED)
def test_every_incident_came_true(played: Played, script: str):
    assert played.said(f"script {script} came true"), "\n".join(played.printed[-20:])


@pytest.mark.parametrize("script", PLAYED)
def test_its_alert_fired(played: Played, script: str):
    alert = ALERT_OF[script]
    assert "firing" in {states.get(alert) for states in played.states}
    assert alert in played.notified


def test_every_alert_was_resolved_and_the_demo_ended_by_itself(ended: Played):
    for alert in ALERT_OF.values():
        assert ended.said(f"{alert} is resolved"), "\n".join(ended.printed[-20:])
    assert ended.code == 0
    assert not ended.said("Traceback")


def test_what_kafka_did_is_what_was_predicted(played: Played):
    [told] = [line for line in played.printed if "elected as predicted in" in line]
    right, of = re.search(r"in (\d+) of (\d+) partitions", told).groups()
    assert right == of != "0"
    assert played.said("the twin says that its leader was too slow for healthy followers") or (
        played.said("the twin says that its leader stood still")
    )


def test_every_panel_has_an_answer_in_the_demos_prometheus(played: Played):
    assert played.empty == []


def test_nothing_is_left(ended: Played):
    ports = [*range(ended.ports["--port"] + 1, ended.ports["--port"] + 4),
             ended.ports["--metrics-port"], ended.ports["--prometheus-port"],
             ended.ports["--prometheus-port"] + 3]  # fmt: skip
    assert [port for port in ports if processes.is_listening(port)] == []


def test_waits_of_rules_are_cut_and_nothing_else():
    rules = "    - expr: x > 5m\n      for: 5m\n      keep_firing_for: 10m\n      for: 0s\n"
    assert with_short_waits(rules) == (
        f"    - expr: x > 5m\n      for: {WAITS_CUT_TO_S}s\n"
        f"      keep_firing_for: {WAITS_CUT_TO_S}s\n      for: 0s\n"
    )
