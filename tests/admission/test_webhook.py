"""The webhook between an API server and a real exporter: what it lets go, and what it says."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from streaming.admission import program
from streaming.admission.gate_client import Gate
from streaming.admission.kubernetes import Kubernetes, KubernetesError, address
from streaming.admission.own_metrics import OWN
from streaming.admission.webhook import Webhook
from streaming.admission.webhook import application as webhook_application
from streaming.cli.main import main
from streaming.exporter.metrics.exposition import Renderer
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import application
from streaming.runtime.config import AccessConfig, AdmissionConfig, Config, ExporterConfig
from streaming.runtime.program_metrics import ProgramMetrics
from tests.admission.api_server import ApiServer, a_pod, serving
from tests.builders import NOW_MS, Partition, a_state
from tests.exporter.serving import served
from tests.exporter.test_exporter import a_store
from tests.twin.test_gate import quorum
from tests.waiting import until
from twin.builtin import CATALOG

UIDS = itertools.count()
CYCLE_MS = 5_000
PARTITIONS = (
    Partition("one", replicas=(1, 2, 3)),
    Partition("two", replicas=(2, 3, 4)),
    Partition("single", replicas=(5,)),
)


def a_review(name: str, **more: Any) -> dict[str, Any]:
    """An eviction, or what ``more`` says."""
    request = {
        "uid": f"uid-{next(UIDS)}", "operation": "CREATE", "namespace": "kafka", "name": name,
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "subResource": "eviction",
        "object": {"kind": "Eviction"}, "userInfo": {"username": "drain"},
    } | more  # fmt: skip
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


@dataclass
class Running:
    """The webhook, and the API server that it asks."""

    client: TestClient
    server: ApiServer
    metrics: ProgramMetrics

    def answer(self, name: str, **more: Any) -> dict[str, Any]:
        review = a_review(name, **more)
        response = self.client.post("/admit", json=review)
        assert response.status_code == 200, response.text
        found = response.json()
        assert (found["apiVersion"], found["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        assert found["response"]["uid"] == review["request"]["uid"]
        answer: dict[str, Any] = found["response"]
        return answer

    def allows(self, name: str, **more: Any) -> bool:
        return bool(self.answer(name, **more)["allowed"])

    def count(self, outcome: str) -> float:
        name = "kafka_twin_admission_reviews_total"
        value = self.metrics.registry.get_sample_value(name, {"cluster": "c", "outcome": outcome})
        return value or 0.0


class Twin:
    """An exporter whose newest view is what ``show`` showed last: two cycles of the cluster."""

    def __init__(self) -> None:
        self.show(NOW_MS)

    def show(self, at_ms: int, late_ms: int = 1_000, **cluster: Any) -> None:
        two = {topic: {"min_insync_replicas": 2} for topic in ("one", "two")}
        before = a_state(*PARTITIONS, at_ms=at_ms - CYCLE_MS, topics=two)
        state = a_state(*PARTITIONS, at_ms=at_ms, topics=two, since=before, **cluster)
        store = a_store(state.with_tables(quorum(0, 0, 0, 0, 0)))
        self._rendered = Renderer(CATALOG, "c", ExporterConfig()).render(store.view)
        self._now_ms = at_ms + late_ms

    def app(self, access: AccessConfig) -> Any:
        source = ViewSource(CATALOG, "c", lambda: self._rendered, lambda: self._now_ms)
        return application(source, access=access)


@contextmanager
def running(
    folder: Path, exporter: str = "", access: AccessConfig = AccessConfig(), token: str = "",
    twin: Twin | None = None, asked_ms: int = NOW_MS - CYCLE_MS, **config: Any,
) -> Iterator[Running]:  # fmt: skip
    """The webhook of a cluster of five brokers, in the pods kafka-1 to kafka-5.

    Reviews come at ``asked_ms``; by default the twin has looked since then.
    """
    server = ApiServer()
    for number in range(1, 6):
        name = f"kafka-{number}"
        server.pods["kafka", name] = a_pod(name, labels={"app": "kafka"})
    section = AdmissionConfig(selector="app=kafka", **config)
    metrics = ProgramMetrics("c", OWN)
    app = (twin or Twin()).app(access)
    with served(app) as url, serving(server, folder) as kubernetes:
        gate = Gate(exporter or url, token, section.gate_terms)
        api = Kubernetes(kubernetes, folder)
        webhook = Webhook(section, api, gate, metrics, lambda: asked_ms / 1_000)
        with TestClient(webhook_application(webhook)) as client:
            yield Running(client, server, metrics)


def test_a_broker_that_may_go_goes_and_one_that_may_not_stays(tmp_path: Path):
    with running(tmp_path) as here:
        assert here.answer("kafka-4") == {"uid": f"uid-{next(UIDS) - 1}", "allowed": True}
        refused = here.answer("kafka-5")
        assert not refused["allowed"]
        status = refused["status"]
        assert (status["code"], status["reason"]) == (429, "TooManyRequests")
        assert status["message"].startswith("kafka-twin: brokers 4, 5: ")
        assert "one replica" in status["message"]
        event = until(lambda: here.server.events and here.server.events[0])
        assert (event["type"], event["reason"]) == ("Warning", "BrokerMayNotGo")
        assert event["involvedObject"]["name"] == "kafka-5"
        assert event["message"] in status["message"]
        assert (here.count("admitted"), here.count("refused")) == (1, 1)


def test_brokers_that_go_at_once_are_judged_together(tmp_path: Path):
    """Each of 2 and 3 may go; with both, nothing has two replicas in sync."""
    with running(tmp_path) as here:
        assert here.allows("kafka-2")
        assert not here.allows("kafka-3")
        assert here.allows("kafka-2"), "a drain that tries again"
    with running(tmp_path) as here:
        assert here.allows("kafka-3", dryRun=True)
        drain = {"kind": "Eviction", "deleteOptions": {"dryRun": ["All"]}}
        assert here.allows("kafka-3", object=drain), "of kubectl drain --dry-run=server"
        assert here.allows("kafka-2"), "a dry run lets nobody go"


def test_a_broker_goes_only_by_what_was_observed_since_it_was_asked(tmp_path: Path):
    """Broker 1 has crashed since the twin looked: with 2, the topic one would have one replica."""
    twin, later_ms = Twin(), NOW_MS + 2 * CYCLE_MS
    with (
        running(tmp_path, twin=twin, asked_ms=NOW_MS + 1) as here,
        ThreadPoolExecutor(1) as asking,
    ):
        answer = asking.submit(here.answer, "kafka-2")
        time.sleep(1.5)
        assert not answer.done(), "it waits"
        twin.show(later_ms, silent=(1,))
        refused = answer.result(60)
        assert not refused["allowed"]
        assert "brokers do not answer: broker 1" in refused["status"]["message"]
        twin.show(later_ms + CYCLE_MS)
        assert here.allows("kafka-2")


def test_a_broker_that_went_unjudged_counts_as_going(tmp_path: Path):
    twin = Twin()
    with running(tmp_path, twin=twin, when_unknown="admit") as here:
        twin.show(NOW_MS, late_ms=10 * 60_000)
        assert here.answer("kafka-2")["warnings"]
        twin.show(NOW_MS)
        assert not here.allows("kafka-3")


def test_a_twin_that_does_not_look_again_is_unknown_at_the_deadline(tmp_path: Path):
    with running(tmp_path, asked_ms=NOW_MS + 1, deadline_ms=1_500) as here:
        status = here.answer("kafka-4")["status"]
        assert "no verdict within admission.deadline_ms" in status["message"]
        assert "one replica" in here.answer("kafka-5")["status"]["message"], "it need not wait"
        assert (here.count("unknown_refused"), here.count("refused")) == (1, 1)


def test_the_gates_terms_and_its_token_are_those_of_the_configuration(tmp_path: Path):
    with running(tmp_path, terms="allow_rf1=true") as here:
        assert here.allows("kafka-5")
    access = AccessConfig(token="looks", operator_token="plans")
    with running(tmp_path, access=access, token="looks") as here:
        assert here.allows("kafka-4")
    with running(tmp_path, access=access) as here:
        assert "who asks is not known" in here.answer("kafka-4")["status"]["message"]


@pytest.mark.parametrize(("when_unknown", "goes"), [("refuse", False), ("admit", True)])
def test_what_an_unknown_answer_means_is_configured(tmp_path: Path, when_unknown: str, goes: bool):
    with running(tmp_path, "http://127.0.0.1:1", when_unknown=when_unknown) as here:
        answer = here.answer("kafka-4")
        assert answer["allowed"] is goes
        said = answer["warnings"][0] if goes else answer["status"]["message"]
        assert "the exporter http://127.0.0.1:1 does not answer: Connection refused" in said
        event = until(lambda: here.server.events and here.server.events[0])
        assert event["reason"] == ("BrokerGoesUnjudged" if goes else "BrokerMayNotGo")
        here.server.status = 403
        assert here.allows("kafka-4") is goes
        assert here.count(f"unknown_{'admitted' if goes else 'refused'}") == 2


def test_an_annotation_lets_a_pod_go_and_that_is_said(tmp_path: Path):
    with running(tmp_path) as here:
        pod = here.server.pods["kafka", "kafka-5"]
        pod["metadata"]["annotations"] = {"kafka-twin.io/allow-eviction": "true"}
        answer = here.answer("kafka-5")
        assert answer["allowed"]
        assert answer["warnings"][0].startswith("kafka-twin: kafka-twin.io/allow-eviction lets it")
        assert until(lambda: here.server.events)[0]["reason"] == "BrokerGoesUnjudged"
        assert here.count("allowed") == 1


def test_a_deletion_is_judged_by_the_pod_that_the_review_has(tmp_path: Path):
    with running(tmp_path) as here:
        here.server.status = 500  # nothing is asked
        delete = {"operation": "DELETE", "subResource": ""}
        old = a_pod("kafka-5", labels={"app": "kafka"})
        assert not here.allows("kafka-5", oldObject=old, **delete)
        old["metadata"]["deletionTimestamp"] = "2026-11-26T12:00:00Z"
        assert here.allows("kafka-5", oldObject=old, **delete), "the kubelet ends it"


@pytest.mark.parametrize(
    "more",
    [{"operation": "UPDATE", "subResource": ""}, {"subResource": "exec"},
     {"resource": {"group": "apps", "version": "v1", "resource": "pods"}}],
)  # fmt: skip
def test_nothing_else_is_judged(tmp_path: Path, more: dict[str, Any]):
    with running(tmp_path) as here:
        assert here.allows("kafka-5", **more)


def test_pods_that_are_no_brokers_go_and_are_not_counted(tmp_path: Path):
    with running(tmp_path) as here:
        here.server.pods["kafka", "web-5"] = a_pod("web-5")
        assert here.answer("web-5").keys() == {"uid", "allowed"}
        assert here.allows("kafka-9"), "there is no such pod: the API server says so itself"
        assert not here.server.events


def test_the_same_event_is_written_once_while_a_drain_tries_again(tmp_path: Path):
    with running(tmp_path) as here:
        for _ in range(5):
            assert not here.allows("kafka-5")
        until(lambda: here.server.events)
        assert here.count("refused") == 5
        assert len(here.server.events) == 1
        assert not here.allows("kafka-5", dryRun=True)


@pytest.mark.parametrize(
    ("body", "says"),
    [(b"", "no AdmissionReview"), (b"[]", "no AdmissionReview"), (b"{", "no AdmissionReview"),
     (msgspec.json.encode(a_review("x") | {"apiVersion": "admission.k8s.io/v1beta1"}),
      "only AdmissionReview admission.k8s.io/v1"),
     (b" " * (4 << 20), "no AdmissionReview")],
)  # fmt: skip
def test_what_is_no_review_is_one_line(tmp_path: Path, body: bytes, says: str):
    with running(tmp_path) as here:
        answer = here.client.post("/admit", content=body)
        assert answer.status_code == 400
        assert says in answer.text
        assert answer.text.count("\n") == 1
        assert here.client.get("/healthz").text == "ok\n"


def test_the_api_server_is_that_of_the_cluster(tmp_path: Path):
    assert address({}) == ""
    inside = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert address(inside) == "https://[fd00::1]:6443"
    with pytest.raises(KubernetesError, match=r"admission\.kubernetes: is not set"):
        Kubernetes("", tmp_path)
    with pytest.raises(KubernetesError, match=r"ca\.crt: cannot be read: No such file"):
        Kubernetes("https://127.0.0.1:1", tmp_path)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [([], "refuse"), (["--fail-open"], "admit"), (["--fail-closed"], "refuse")],
)
def test_the_command_says_what_an_unknown_answer_means(
    flags: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
):
    ran: list[Config] = []
    monkeypatch.setattr(program, "run", ran.append)
    done = CliRunner().invoke(main, ["admission", *flags], env={})
    assert (done.exit_code, done.output) == (0, "")
    assert [config.admission.when_unknown for config in ran] == [expected]
