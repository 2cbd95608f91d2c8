"""The webhook of the chart behind a real API server: evictions, deletions, and its rights."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.dist import CHART
from streaming.admission.gate_client import Gate
from streaming.admission.kubernetes import Kubernetes
from streaming.admission.own_metrics import OWN
from streaming.admission.webhook import Webhook, application
from streaming.runtime.config import AccessConfig, AdmissionConfig
from streaming.runtime.program_metrics import ProgramMetrics
from streaming.serving.certificate import Certificate
from tests.admission.test_webhook import CYCLE_MS, Twin
from tests.builders import NOW_MS
from tests.exporter.serving import served
from tests.exporter.web.test_certificate import written
from tests.kubernetes.api_server import Cluster, KubectlError
from tests.kubernetes.charting import EVERYTHING, helm, merged
from tests.waiting import until

pytestmark = pytest.mark.kubernetes

BROKERS = "kafka"
RELEASE = "twin-admission"
CONFIGURATION = f"{RELEASE}-kafka-twin-admission"
ACCOUNT = f"system:serviceaccount:{RELEASE}:{RELEASE}-kafka-twin-admission"


@pytest.fixture(scope="module")
def admission(cluster: Cluster) -> Iterator[Cluster]:
    """The chart is installed, and brokers have a namespace that the webhook watches."""
    label = {"kafka-twin.io/brokers": "true"}
    cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": BROKERS, "labels": label}}
    )
    given = yaml.dump(merged(EVERYTHING, "fullnameOverride", f"{RELEASE}-kafka-twin"))
    at = ("--kubeconfig", cluster.kubeconfig, "--namespace", RELEASE)
    helm("install", RELEASE, CHART, "--create-namespace", "--wait=false", "--values", "-", *at,
         given=given)  # fmt: skip
    yield cluster
    helm("uninstall", RELEASE, *at)


@contextmanager
def webhook(cluster: Cluster, folder: Path, **config: Any) -> Iterator[ProgramMetrics]:
    """The webhook at the address where the API server calls it, with the rights of the chart."""
    account = folder / "account"
    account.mkdir()
    (account / "ca.crt").write_bytes(cluster.authority.read_bytes())
    name = ACCOUNT.rpartition(":")[2]
    (account / "token").write_text(cluster.kubectl("create", "token", name, "-n", RELEASE))
    chain, key = written(folder / "tls", "webhook")
    section = AdmissionConfig(selector="app=kafka", **config)
    metrics = ProgramMetrics("c", OWN)
    with served(Twin().app(AccessConfig())) as exporter:
        judge = Webhook(
            section, Kubernetes(cluster.url, account), Gate(exporter, "", section.gate_terms),
            metrics, lambda: (NOW_MS - CYCLE_MS) / 1_000,
        )  # fmt: skip
        with served(application(judge), certificate=Certificate(chain, key)) as url:
            point_to(cluster, f"{url}/admit", chain)
            yield metrics


def configuration(cluster: Cluster) -> dict[str, Any]:
    """The webhook's configuration, without what the server adds."""
    [found] = cluster.get("validatingwebhookconfigurations", CONFIGURATION)
    for key in ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"):
        found["metadata"].pop(key, None)
    return found


def point_to(cluster: Cluster, url: str, chain: Path) -> None:
    """Let the API server call a process of this machine in place of a Service."""
    found = configuration(cluster)
    bundle = base64.b64encode(chain.read_bytes()).decode()
    found["webhooks"][0]["clientConfig"] = {"url": url, "caBundle": bundle}
    cluster.kubectl("replace", "-f", "-", given=found)


@pytest.fixture(autouse=True)
def pods(admission: Cluster) -> Iterator[None]:
    """A pod for each of the brokers 1 to 5; the webhook is as the chart installed it afterwards."""
    admission.apply(*(a_pod(number) for number in range(1, 6)))
    installed = configuration(admission)
    yield
    admission.kubectl("delete", "validatingwebhookconfigurations", CONFIGURATION)
    admission.kubectl("delete", "pods", "--all", "-n", BROKERS, "--grace-period=0", "--force")
    admission.kubectl("create", "-f", "-", given=installed)


def a_pod(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"kafka-{number}", "namespace": BROKERS, "labels": {"app": "kafka"}},
        "spec": {"containers": [{"name": "kafka", "image": "kafka"}]},
    }


def evict(cluster: Cluster, number: int, **options: Any) -> None:
    """What `kubectl drain` does with a pod."""
    name = f"kafka-{number}"
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": BROKERS},
        "deleteOptions": options,
    }
    path = f"/api/v1/namespaces/{BROKERS}/pods/{name}/eviction"
    cluster.kubectl("create", "--raw", path, "-f", "-", given=eviction)


def there(cluster: Cluster) -> set[str]:
    return {each["metadata"]["name"] for each in cluster.get("pods", "-n", BROKERS)}


def test_a_broker_that_may_go_goes_and_the_others_stay_with_an_event(
    admission: Cluster, tmp_path: Path
):
    with webhook(admission, tmp_path):
        evict(admission, 4)
        with pytest.raises(KubectlError, match=r"TooManyRequests|kafka-twin: .*one replica"):
            evict(admission, 5)
        assert there(admission) == {"kafka-1", "kafka-2", "kafka-3", "kafka-5"}

        def told() -> list[dict[str, Any]]:
            events = admission.get("events", "-n", BROKERS)
            return [e for e in events if e["reason"] == "BrokerMayNotGo"]

        [event] = until(told, 30, "nobody wrote an event")
        assert event["involvedObject"]["name"] == "kafka-5"


def test_drains_at_the_same_time_are_judged_together(admission: Cluster, tmp_path: Path):
    with webhook(admission, tmp_path):
        evict(admission, 2)
        with pytest.raises(KubectlError, match="kafka-twin: brokers 2, 3"):
            evict(admission, 3)
        assert "kafka-3" in there(admission)


def test_a_deletion_is_asked_about_too_and_an_annotation_allows_it_once(
    admission: Cluster, tmp_path: Path
):
    with webhook(admission, tmp_path):
        delete = ("delete", "pod", "kafka-5", "-n", BROKERS, "--wait=false")
        with pytest.raises(KubectlError, match="one replica"):
            admission.kubectl(*delete)
        admission.kubectl(
            "annotate", "pod", "kafka-5", "-n", BROKERS, "kafka-twin.io/allow-eviction=true"
        )
        admission.kubectl(*delete)
        assert "kafka-5" not in there(admission)


def test_a_dry_run_lets_nobody_go(admission: Cluster, tmp_path: Path):
    with webhook(admission, tmp_path):
        evict(admission, 3, dryRun=["All"])
        assert "kafka-3" in there(admission)
        evict(admission, 2)


def test_pods_of_other_namespaces_are_not_asked_about(admission: Cluster, tmp_path: Path):
    with webhook(admission, tmp_path) as metrics:
        other = a_pod(5)
        other["metadata"]["namespace"] = "default"
        admission.apply(other)
        admission.kubectl("delete", "pod", "kafka-5", "-n", "default", "--wait=false")
        outcome = {"cluster": "c", "outcome": "refused"}
        counted = metrics.registry.get_sample_value("kafka_twin_admission_reviews_total", outcome)
        assert not counted


def test_without_the_webhook_the_failure_policy_decides(admission: Cluster):
    with pytest.raises(KubectlError, match="failed calling webhook"):
        evict(admission, 4)
    found = configuration(admission)
    found["webhooks"][0]["failurePolicy"] = "Ignore"
    admission.kubectl("replace", "-f", "-", given=found)
    until(lambda: goes(admission, 4), 30, "the API server does not take the policy")


def goes(cluster: Cluster, number: int) -> bool:
    try:
        evict(cluster, number)
    except KubectlError:
        return False
    return True


def test_the_rights_of_the_chart_are_used_and_are_enough(admission: Cluster, tmp_path: Path):
    [role] = admission.get("clusterrole", CONFIGURATION)
    granted = {
        (verb, resource)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }
    with webhook(admission, tmp_path):
        evict(admission, 4)
        with pytest.raises(KubectlError):
            evict(admission, 5)

        def asked() -> set[tuple[str, str]]:
            return {
                (each["verb"], each["objectRef"]["resource"]) for each in admission.audited(ACCOUNT)
            }

        until(lambda: asked() >= granted, 30, "a right is not used")
    assert asked() == granted
    assert {each["responseStatus"]["code"] for each in admission.audited(ACCOUNT)} <= {200, 201}
