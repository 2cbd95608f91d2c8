"""Every query of every dashboard has an answer in a real Prometheus."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from grafana.__main__ import DASHBOARDS
from streaming.lab.processes import free_base_port
from tests.exporter.test_exporter import a_full_store, exposition
from tests.grafana.pages import panels
from tests.waiting import until
from tests.web import get

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None and not os.environ.get("CI"),
    reason="prometheus is not on the PATH; it is in Debian's package prometheus",
)

READY_S = 60

CONFIG = """
global: {scrape_interval: 2s}
scrape_configs:
  - job_name: kafka-twin
    static_configs: [{targets: ["%s"]}]
"""

Ask = Callable[[str], list[Any]]


@pytest.fixture(scope="module")
def exporter() -> Iterator[str]:
    """The address of a server with every metric of a small cluster."""
    body = exposition(a_full_store(), granularity="partition").encode()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def ask(exporter: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Answers of a Prometheus about the time of a scrape, at least the second.

    A busy machine takes longer than the interval for a later scrape, after which all is stale.
    """
    folder: Path = tmp_path_factory.mktemp("prometheus")
    (folder / "prometheus.yml").write_text(CONFIG % exporter)
    address = f"127.0.0.1:{free_base_port(1)}"
    process = subprocess.Popen(
        ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
         f"--web.listen-address={address}"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def query(expr: str, **at: str) -> list[Any]:
        url = f"http://{address}/api/v1/query"
        answer = httpx2.get(url, params={"query": expr, **at}, timeout=60)
        assert answer.status_code == 200, f"{expr}: {answer.text}"
        return list(answer.json()["data"]["result"])

    try:
        # It listens before it answers.
        until(lambda: get(f"http://{address}/-/ready")[0] == 200, READY_S, "it is not ready")
        [scraped] = until(
            lambda: query("timestamp(kafka_twin_up) and count_over_time(kafka_twin_up[1m]) >= 2"),
            READY_S,
            "Prometheus has scraped nothing",
        )
        yield partial(query, time=scraped["value"][1])
    finally:
        process.terminate()
        process.wait(READY_S)


def filled(expr: str, one_partition: bool) -> str:
    """The query with the variables as they are when a person opens the dashboard."""
    topic = "warm" if one_partition else ".*"
    chosen = {"cluster": "c", "topic": topic, "partition": "0"}
    expr = re.sub(r"\$__(rate_interval|range)", "1m", expr)
    return re.sub(r"\$(\w+)", lambda name: chosen.get(name[1], ".*"), expr)


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda d: d.uid)
def test_no_panel_is_empty_unless_it_says_why(dashboard, ask):
    one_partition = dashboard.uid == "kafka-twin-partition"
    for panel in panels(dashboard):
        for target in panel["targets"]:
            answer = ask(filled(target["expr"], one_partition))
            says_why = panel["fieldConfig"]["defaults"].get("noValue")
            assert answer or says_why, f"{panel['title']}: {target['expr']}"


def test_offsets_of_a_replica_are_split_by_where_they_are(ask):
    """Log start 0, local start 20, pending upload 26, log end 100."""
    [page] = [d for d in DASHBOARDS if d.uid == "kafka-twin-partition"]
    [panel] = [p for p in panels(page) if p["title"] == "Where the log is"]
    answers = [ask(filled(target["expr"], True)) for target in panel["targets"]]
    of_leader = [next(a for a in answer if a["metric"]["broker"] == "1") for answer in answers]
    before, remote, both, local = (float(answer["value"][1]) for answer in of_leader)
    assert (before, remote, both, local) == (0, 20, 6, 74)


def test_the_first_topic_of_the_partition_dashboard_has_the_worst_risk(ask):
    [page] = [d for d in DASHBOARDS if d.uid == "kafka-twin-partition"]
    [variable] = [v for v in page.variables if v["name"] == "topic"]
    expr = filled(variable["definition"].removeprefix("query_result(").removesuffix(")"), True)
    answer = [(each["metric"]["topic"], int(each["value"][1])) for each in ask(expr)]
    ranks = [rank for _, rank in answer]
    assert ranks == sorted(ranks, reverse=True)
    worst = {
        each["metric"]["topic"] for each in ask('kafka_twin_partition_at_risk{severity="page"}')
    }
    assert {topic for topic, rank in answer if rank == 4} == worst != set()
    exported = {each["metric"]["topic"] for each in ask("kafka_twin_partition_replicas")}
    assert sorted(topic for topic, _ in answer) == sorted(exported), "each of them once"
