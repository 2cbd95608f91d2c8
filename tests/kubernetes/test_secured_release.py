"""What owners of clusters set, taken by a real API server: the chart's objects, those for
kustomize, and pods in a namespace that enforces the restricted Pod Security Standard."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.dist import CHART, ROOT
from tests.kubernetes.api_server import Cluster, KubectlError
from tests.kubernetes.charting import Manifest, helm, rendered
from tests.kubernetes.combinations import COMBINATIONS
from tests.kubernetes.test_secured import pods

pytestmark = pytest.mark.kubernetes

COMPONENTS = ("archive", "monitoring", "admission", "tls", "openshift")


MODES = ("query-statefulset", "query-spark-operator")
_NUMBERS = count()


@pytest.fixture
def restricted(cluster: Cluster) -> Iterator[str]:
    """A namespace that takes no pod that may do more than it must."""
    name = f"secured-{next(_NUMBERS)}"
    cluster.apply(a_namespace(name))
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


def a_namespace(name: str) -> Manifest:
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": label}}


def are_taken(cluster: Cluster, namespace: str, objects: list[Manifest]) -> int:
    """Let the API server judge each pod; the number of pods.

    Raises:
        KubectlError: one is refused.
    """
    judged = 0
    for role, spec in pods(objects):
        containers = [{"image": "given by Spark", **each} for each in spec["containers"]]
        volumes = [{"name": "state", "emptyDir": {}}, *spec["volumes"]]  # in place of a claim
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": role},
               "spec": {**spec, "containers": containers, "volumes": volumes}}  # fmt: skip
        cluster.kubectl("create", "--dry-run=server", "-n", namespace, "-f", "-", given=pod)
        judged += 1
    return judged


@pytest.mark.parametrize("name", COMBINATIONS)
def test_a_release_is_taken_and_its_pods_are_restricted(
    cluster: Cluster, restricted: str, name: str
):
    values = COMBINATIONS[name]
    at = ("--kubeconfig", cluster.kubeconfig, "--namespace", restricted)
    helm("install", restricted, CHART, "--wait=false", "--values", "-", *at,
         given=yaml.dump(dict(values)))  # fmt: skip
    try:
        objects = rendered(values, restricted, restricted)
        assert are_taken(cluster, restricted, objects) >= 3
        for service in (o for o in objects if o["kind"] == "Service"):
            wanted = service["spec"].get("ipFamilies", ["IPv4"])
            [kept] = cluster.get("service", service["metadata"]["name"], "-n", restricted)
            assert kept["spec"]["ipFamilies"] == wanted
    finally:
        helm("uninstall", restricted, *at)


@pytest.mark.parametrize("mode", MODES)
def test_components_for_kustomize_fit_each_other(
    cluster: Cluster, restricted: str, tmp_path: Path, mode: str
):
    objects = built(cluster, tmp_path, restricted, mode)
    cluster.apply(*(each for each in objects if each["kind"] != "PrometheusRule"))
    assert are_taken(cluster, restricted, objects) >= 5
    for _, spec in pods(objects):
        assert not {"runAsUser", "fsGroup", "fsGroupChangePolicy"} & spec["securityContext"].keys()
    [exporter] = [s for name, s in pods(objects) if name == "exporter"]
    [container] = exporter["containers"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    of_cluster = ("validatingwebhookconfigurations", "clusterroles", "clusterrolebindings")
    for kind in of_cluster:
        cluster.kubectl("delete", kind, "kafka-twin-admission")


def built(cluster: Cluster, folder: Path, namespace: str, mode: str) -> list[Manifest]:
    """What kustomize makes of all components, in that order."""
    shutil.copytree(ROOT / "deploy" / "kubernetes", folder / "deploy" / "kubernetes")
    shutil.copytree(ROOT / "grafana", folder / "grafana")
    overlay = folder / "deploy" / "kubernetes" / "overlays" / "all"
    overlay.mkdir()
    components = [f"../../{name}" for name in (mode, *COMPONENTS)]
    made: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "namespace": namespace, "resources": ["../../base"], "components": components,
    }  # fmt: skip
    (overlay / "kustomization.yaml").write_text(yaml.dump(made))
    text = cluster.kubectl("kustomize", str(overlay))
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]


def test_such_a_namespace_refuses_a_pod_that_may_be_root(cluster: Cluster, restricted: str):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "root"},
           "spec": {"containers": [{"name": "a", "image": "a"}]}}  # fmt: skip
    with pytest.raises(KubectlError, match="runAsNonRoot"):
        cluster.kubectl("create", "--dry-run=server", "-n", restricted, "-f", "-", given=pod)
