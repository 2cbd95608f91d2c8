"""The example configuration of the Alertmanager: valid, routed by severity, and inhibiting."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from streaming.lab.processes import free_base_port
from tests.deploy.test_rules import ALERTS
from tests.waiting import until
from tests.web import get

CONFIG = Path(__file__).parents[2] / "deploy" / "alertmanager" / "alertmanager.yml"
READY_S = 60

pytestmark = pytest.mark.skipif(
    not (shutil.which("amtool") and shutil.which("prometheus-alertmanager"))
    and not os.environ.get("CI"),
    reason="amtool is not on the PATH; it is in Debian's package prometheus-alertmanager",
)


def amtool(*arguments: str) -> str:
    done = subprocess.run(["amtool", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_configuration_is_valid():
    assert "SUCCESS" in amtool("check-config", str(CONFIG))


@pytest.mark.parametrize(
    ("severity", "receiver"),
    [("page", "kafka-twin-pager"), ("warn", "kafka-twin-chat"), ("info", "kafka-twin-log")],
)
def test_alerts_go_where_their_severity_belongs(severity: str, receiver: str):
    for alert in ALERTS:
        if alert["labels"]["severity"] == severity:
            output = amtool("config", "routes", "test", "--config.file", str(CONFIG),
                          f"alertname={alert['alert']}", f"severity={severity}")  # fmt: skip
            assert output.splitlines()[0].strip() == receiver


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a real Alertmanager with this configuration."""
    address = f"127.0.0.1:{free_base_port(1)}"
    process = subprocess.Popen(
        ["prometheus-alertmanager", f"--config.file={CONFIG}", f"--web.listen-address={address}",
         f"--storage.path={tmp_path_factory.mktemp('alertmanager')}", "--cluster.listen-address="],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    url = f"http://{address}"
    try:
        until(lambda: get(f"{url}/-/ready")[0] == 200, READY_S, "it is not ready")
        yield url
    finally:
        process.terminate()
        process.wait(READY_S)


def inhibited(url: str, *alerts: dict[str, str]) -> set[tuple[str, str]]:
    """Alert and cluster of those that are held back once all of these fire."""
    body = [{"labels": labels} for labels in alerts]
    assert httpx2.post(f"{url}/api/v2/alerts", json=body).status_code == 200

    def all_listed() -> list[Any] | None:
        listed = json.loads(get(f"{url}/api/v2/alerts")[1])
        return listed if len(listed) >= len(alerts) else None

    return {
        (alert["labels"]["alertname"], alert["labels"].get("cluster", ""))
        for alert in until(all_listed, READY_S, "an alert is not listed")
        if alert["status"]["inhibitedBy"]
    }


def test_a_twin_that_is_down_holds_back_what_it_said_of_its_own_cluster(running: str):
    offline = {"alertname": "KafkaTwinPartitionOffline", "severity": "page"}
    other = {"alertname": "SomebodyElses", "severity": "page", "cluster": "a"}
    down = {"alertname": "KafkaTwinDown", "severity": "page", "cluster": "a"}
    why = {"alertname": "KafkaTwinNoBrokerAnswers", "severity": "page", "cluster": "a"}
    own, others = offline | {"cluster": "a"}, offline | {"cluster": "b"}
    assert inhibited(running, down, own, others, other, why) == {("KafkaTwinPartitionOffline", "a")}


def test_an_alert_without_a_cluster_inhibits_nothing(running: str):
    nowhere = {"alertname": "KafkaTwinDown", "severity": "page"}
    down = nowhere | {"cluster": "d"}
    offline = {"alertname": "KafkaTwinPartitionOffline", "severity": "page"}
    its_own, other = offline | {"cluster": "d"}, offline | {"cluster": "e"}

    def held_back() -> set[tuple[str, str]] | None:
        alerts = inhibited(running, nowhere, down, its_own, other)
        return alerts if ("KafkaTwinPartitionOffline", "d") in alerts else None

    # Alerts are evaluated in order: once the second inhibits, the first has been evaluated.
    assert ("KafkaTwinPartitionOffline", "e") not in until(held_back, READY_S, "nothing inhibits")
