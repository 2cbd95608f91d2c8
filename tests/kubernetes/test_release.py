"""Releases of the chart on a real API server: installed, upgraded, uninstalled."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.dist import CHART
from tests.kubernetes.api_server import Cluster
from tests.kubernetes.charting import CONFIG, EVERYTHING, helm, merged, rendered

pytestmark = pytest.mark.kubernetes

OPERATOR = merged(
    merged(EVERYTHING, "query.mode", "sparkOperator"), "query.checkpoint", "s3a://bucket/twin"
)
KINDS = (
    "deployments,statefulsets,services,configmaps,networkpolicies,poddisruptionbudgets,ingresses,"
    "serviceaccounts,roles,rolebindings,servicemonitors,podmonitors,prometheusrules,certificates,"
    "issuers,grafanadashboards,sparkapplications"
)
OF_CLUSTER = "clusterroles,clusterrolebindings,validatingwebhookconfigurations"


class Release:
    """A release in a namespace of its own."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name = cluster, name
        self.by = "helm"

    def helm(self, *arguments: str | Path, values: dict[str, Any] | None = None) -> str:
        given = () if values is None else ("--values", "-")
        return helm(
            *arguments, *given, "--kubeconfig", self.cluster.kubeconfig, "--namespace", self.name,
            given="" if values is None else yaml.dump(values), by=self.by,
        )  # fmt: skip

    def objects(self) -> set[tuple[str, str]]:
        """Kind and name of all that is labelled as of this release."""
        label = f"app.kubernetes.io/instance={self.name}"
        found = self.cluster.get(KINDS, "--namespace", self.name, "--selector", label)
        found += self.cluster.get(OF_CLUSTER, "--selector", label)
        return {(each["kind"], each["metadata"]["name"]) for each in found}


@pytest.fixture
def release(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Release]:
    name = f"of-{request.node.name.partition('[')[0].removeprefix('test_').replace('_', '-')}"[:40]
    made = Release(cluster, name.rstrip("-"))
    yield made
    helm("uninstall", made.name, "--kubeconfig", cluster.kubeconfig, "--namespace", made.name,
         "--ignore-not-found")  # fmt: skip


@pytest.mark.parametrize(
    "values", [{"config": CONFIG}, EVERYTHING, OPERATOR], ids=["little", "everything", "operator"]
)
@pytest.mark.parametrize("version", ["helm", "helm3"])
def test_installed_is_what_helm_renders_and_uninstalled_nothing(
    release: Release, values: dict[str, Any], version: str
):
    release.by = version
    release.helm(
        "install", release.name, CHART, "--create-namespace", "--wait=false", values=values
    )
    expected = rendered(values, release.name, release.name)
    assert release.objects() == {(o["kind"], o["metadata"]["name"]) for o in expected}
    release.helm("uninstall", release.name)
    assert release.objects() == set()


def test_an_upgrade_from_another_version_changes_the_pods(release: Release, tmp_path: Path):
    """Selectors of Deployments and StatefulSets cannot be changed: no version may be in them."""
    before = tmp_path / "kafka-twin"
    shutil.copytree(CHART, before)
    about = yaml.safe_load((before / "Chart.yaml").read_text())
    (before / "Chart.yaml").write_text(
        yaml.dump(about | {"version": "0.0.9", "appVersion": "0.0.9"})
    )
    release.helm("install", release.name, before, "--create-namespace", "--wait=false",
                 values=dict(EVERYTHING))  # fmt: skip

    def templates() -> dict[str, Any]:
        found = release.cluster.get("deployments,statefulsets", "--namespace", release.name)
        return {each["metadata"]["name"]: each["spec"]["template"] for each in found}

    old = templates()
    changed = merged(EVERYTHING, "config", EVERYTHING["config"] + "[bus]\nshards = 4\n")
    release.helm("upgrade", release.name, CHART, "--wait=false", values=changed)
    new = templates()
    assert old.keys() == new.keys()
    for name, template in new.items():
        [container] = template["spec"]["containers"]
        assert container["image"].endswith(f":{about['version']}")
        assert old[name]["spec"]["containers"][0]["image"].endswith(":0.0.9")
        assert old[name]["metadata"]["annotations"] != template["metadata"]["annotations"]
    release.helm("rollback", release.name, "1", "--wait=false")
    assert templates() == old


def test_two_releases_live_beside_each_other(release: Release):
    other = Release(release.cluster, release.name)
    release.helm("install", release.name, CHART, "--create-namespace", "--wait=false",
                 values={"config": CONFIG})  # fmt: skip
    mine = release.objects()
    other.helm("install", "second", CHART, "--wait=false", values={"config": CONFIG})
    other.helm("uninstall", "second")
    assert release.objects() == mine


def test_the_manifests_for_kustomize_are_taken_as_well(cluster: Cluster):
    example = CHART.parents[1] / "kubernetes" / "overlays" / "example"
    cluster.kubectl("apply", "--server-side", "-k", str(example))
    found = {each["metadata"]["name"] for each in cluster.get("deployments", "-n", "kafka-twin")}
    assert found == {"kafka-twin-collector", "kafka-twin-exporter"}
    cluster.kubectl("delete", "--wait=false", "-k", str(example))


@pytest.mark.parametrize("path", sorted((CHART.parents[1] / "examples").rglob("*.yaml")),
                         ids=lambda path: f"{path.parent.name}/{path.name}")  # fmt: skip
def test_the_examples_are_taken(cluster: Cluster, path: Path):
    """Only looked at: they are parts of objects, or of a cluster that is not here."""
    for each in yaml.safe_load_all(path.read_text()):
        if each and each.get("apiVersion"):
            cluster.kubectl("create", "--dry-run=server", "-f", "-", given=each)
