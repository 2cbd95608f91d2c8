"""A real Prometheus finds the clusters of an exporter, and scrapes each by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import httpx2
import pytest

from streaming.exporter.fleet.fleet_application import fleet_application
from streaming.exporter.fleet.served_clusters import ServedClusters
from streaming.lab.processes import free_base_port
from tests.exporter.fleet.views import a_source
from tests.exporter.serving import served
from tests.waiting import until
from twin.builtin import CATALOG

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None and not os.environ.get("CI"),
    reason="prometheus is not on the PATH; it is in Debian's package prometheus",
)

CONFIG = """
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: kafka-twin
    http_sd_configs: [{url: "%s/api/v1/http_sd", refresh_interval: 1s}]
"""


def test_each_cluster_is_a_target_whose_series_have_its_labels(tmp_path: Path):
    sources = [a_source("orders", labels={"env": "prod"}), a_source("payments", seed=2)]
    with served(fleet_application(ServedClusters(sources), CATALOG)) as url:
        (tmp_path / "prometheus.yml").write_text(CONFIG % url)
        address = f"127.0.0.1:{free_base_port(1)}"
        process = subprocess.Popen(
            ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
             f"--web.listen-address={address}"],
            cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

        def series(expr: str) -> dict[str, dict[str, str]]:
            try:
                answer = httpx2.get(f"http://{address}/api/v1/query", params={"query": expr})
                found = answer.json()["data"]["result"]
            except (httpx2.HTTPError, ValueError):
                return {}
            return {each["metric"]["instance"]: each["metric"] for each in found}

        def both(expr: str) -> dict[str, dict[str, str]] | None:
            found = series(expr)
            return found if len(found) == 2 else None

        try:
            by_instance = until(lambda: both("kafka_twin_up"), 60, "two targets are not scraped")
            host = url.removeprefix("http://")
            orders = by_instance[f"{host}/clusters/orders"]
            payments = by_instance[f"{host}/clusters/payments"]
            assert (orders["cluster"], orders["env"]) == ("orders", "prod")
            assert payments["cluster"] == "payments"
            assert "env" not in payments
            assert until(lambda: both("up == 1"), 60, "a target is not up").keys() == {*by_instance}
        finally:
            process.terminate()
            process.wait(60)
