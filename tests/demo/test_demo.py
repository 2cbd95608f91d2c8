"""The demo plays its incidents, and the alerts of a real Prometheus fire and resolve.

A suite of its own, since it takes minutes in which the machine has little to do: ``tests/run`` runs
it beside the others, and ``pytest`` runs it if it is named: ``pytest tests/demo``.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from grafana.__main__ import DASHBOARDS
from streaming.lab import processes
from streaming.lab.cluster import free_base_port
from streaming.lab.scripts import SCRIPTS

ALERT_OF = {
    "failover": "KafkaTwinPartitionOffline",
    "cold-leader": "KafkaTwinLeaderCold",
    "warm-order": "KafkaTwinNextLeaderCold",
    "stuck-bootstrap": "KafkaTwinBootstrapStuck",
    "slow-leader": "KafkaTwinSlowLeader",
}
PLAYED = sorted(SCRIPTS, key=lambda script: script != "slow-leader")
"""Its suspicion lasts five minutes, in which the others are played."""

WHOLE_S = 1_200

pytestmark = [
    pytest.mark.demo,
    pytest.mark.timeout(WHOLE_S + 60),
    pytest.mark.skipif(
        shutil.which("prometheus") is None and not os.environ.get("CI"),
        reason="prometheus is not on the PATH; it is in Debian's package prometheus",
    ),
]


@dataclass
class Played:
    """The output of the demo, the alerts of Prometheus meanwhile, and the exit code."""

    ports: dict[str, int]
    printed: list[str] = field(default_factory=list)
    states: list[dict[str, str]] = field(default_factory=list)  # of alerts, one look a second
    empty: list[str] = field(default_factory=list)  # queries of panels without an answer
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

    def prints(self, text: str) -> bool:
        return any(text in line for line in self.printed)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The record of a demo that has played all scripts on one cluster and has ended by itself."""
    home = tmp_path_factory.mktemp("demo")
    base = free_base_port(60)
    record = Played({"--port": base, "--metrics-port": base + 50, "--prometheus-port": base + 54})
    command = [sys.executable, "-m", "streaming", "demo", "--home", str(home)]
    for name, port in record.ports.items():
        command += [name, str(port)]
    for script in PLAYED:
        command += ["--script", script]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    watcher = threading.Thread(target=watch, args=(record, process), daemon=True)
    watcher.start()
    give_up = threading.Timer(WHOLE_S, process.terminate)
    give_up.start()
    try:
        assert process.stdout is not None
        for line in process.stdout:  # until it ends
            record.printed.append(line.rstrip())
        record.code = process.wait(60)
    finally:
        give_up.cancel()
        if process.poll() is None:
            process.terminate()
            process.wait(60)
        watcher.join(30)
    record.tap = (home / "twin" / "logs" / "tap.log").read_text()
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


def watch(record: Played, process: subprocess.Popen[str]) -> None:
    """Look at the alerts each second, and at all panels once, until the demo ends."""
    panels_due = True
    while process.poll() is None:
        look(record)
        if record.without_fetches != [] and record.prints("the twin is live"):
            record.without_fetches = without_fetches(record.exporter)
        if panels_due and record.prints("script stuck-bootstrap came true"):
            panels_due = False
            record.empty = empty_panels(record.prometheus)
        time.sleep(1)


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
    chosen = {"cluster": "demo", "topic": ".*", "partition": ".*"}
    empty = []
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
                    empty.append(f"{panel['title']}: {expr}")
    return empty


@pytest.mark.parametrize("script", PLAYED)
def test_every_incident_came_true(demo: Played, script: str):
    assert demo.prints(f"script {script} came true"), "\n".join(demo.printed[-20:])


@pytest.mark.parametrize("script", PLAYED)
def test_its_alert_fired(demo: Played, script: str):
    alert = ALERT_OF[script]
    assert "firing" in {states.get(alert) for states in demo.states}
    assert alert in demo.notified


def test_every_alert_was_resolved_and_the_demo_ended_by_itself(demo: Played):
    for alert in ALERT_OF.values():
        assert demo.prints(f"{alert} is resolved"), "\n".join(demo.printed[-20:])
    assert demo.code == 0
    assert not demo.prints("Traceback")


def test_what_kafka_did_is_what_was_predicted(demo: Played):
    [line] = [line for line in demo.printed if "elected as predicted in" in line]
    right, led = re.search(r"in (\d+) of (\d+) partitions", line).groups()
    assert right == led != "0"
    assert demo.prints("the twin says that its leader was too slow for healthy followers") or (
        demo.prints("the twin says that its leader stood still")
    )


def test_what_followers_fetch_is_known_of_every_partition(demo: Played):
    assert demo.without_fetches == []


def test_what_kip501_would_have_done_is_known(demo: Played):
    [line] = [line for line in demo.printed if "threw out" in line]
    assert re.search(r"KIP-501 would (not )?have kept it", line), line


def test_the_tap_reads_everything_while_logs_are_rolled_and_brokers_are_lost(demo: Played):
    assert demo.rolled, "no request log was rolled"
    assert set(re.findall(r"invalid_lines=({.*?})", demo.tap)) == {"{}"}
    assert set(re.findall(r"skipped_bytes=(\d+)", demo.tap)) == {"0"}
    assert demo.tap.count(" running ") == 1, "it was not restarted"


def test_the_planned_order_saved_every_remote_fetch(demo: Played):
    """The demo's partition with a cold replica: 1 MB or more that is not on its disk."""
    counted = [
        int(match[1])
        for line in demo.printed
        if (match := re.search(r"(\d+) remote fetches$", line))
    ]
    before, after = counted
    assert before >= 10
    assert after == 0


def test_every_panel_has_an_answer_in_the_demos_prometheus(demo: Played):
    assert demo.empty == []


def test_nothing_is_left(demo: Played):
    ports = [*range(demo.ports["--port"] + 1, demo.ports["--port"] + 4),
             *range(demo.ports["--metrics-port"], demo.ports["--metrics-port"] + 4),
             demo.ports["--prometheus-port"], demo.ports["--prometheus-port"] + 3]  # fmt: skip
    assert [port for port in ports if processes.is_listening(port)] == []
    assert demo.left == []
