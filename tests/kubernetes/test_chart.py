"""The chart: what Helm makes of it is what the manifests say, and every value does something."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import manifests
from deploy.dist import CHART, ROOT, version
from tests.kubernetes.charting import (
    ARCHIVED,
    CONFIG,
    EVERYTHING,
    RefusedError,
    helm,
    merged,
    named,
    rendered,
    text_of,
)
from tests.kubernetes.tools import program

pytestmark = pytest.mark.helm

OPERATOR = merged(
    merged(EVERYTHING, "query.mode", "sparkOperator"), "query.checkpoint", "s3a://bucket/twin"
)


@pytest.fixture(scope="module")
def made() -> dict[Path, str]:
    return manifests.files(program("helm"))


@pytest.mark.parametrize("name", manifests.MANIFESTS)
def test_a_manifest_is_what_helm_renders(made: dict[Path, str], name: str):
    path = manifests.FOLDER / name
    assert path.read_text() == made[path], "run: make manifests"


@pytest.mark.parametrize("release", ["kafka-twin", "west"])
def test_selectors_choose_pods_of_this_release_and_labels_answer_them(release: str):
    objects = rendered(EVERYTHING, release)
    pods = [o for o in objects if o["kind"] in ("Deployment", "StatefulSet")]
    own = {"app.kubernetes.io/name": "kafka-twin", "app.kubernetes.io/instance": release}
    for each in pods:
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert own.items() <= labels.items()
        assert each["spec"]["selector"]["matchLabels"].items() <= labels.items()
    for each in objects:
        if each["kind"] == "Service":
            assert own.items() <= each["spec"]["selector"].items()
        if each["kind"] == "NetworkPolicy":
            assert own.items() <= each["spec"]["podSelector"]["matchLabels"].items()
        assert own.items() <= each["metadata"]["labels"].items()


def test_the_webhook_of_another_release_and_namespace_is_reached_and_trusted():
    objects = rendered(EVERYTHING, "west", "watch")
    [webhooks] = [o for o in objects if o["kind"] == "ValidatingWebhookConfiguration"]
    [webhook] = webhooks["webhooks"]
    at = webhook["clientConfig"]["service"]
    assert (at["name"], at["namespace"]) == ("west-kafka-twin-admission", "watch")
    [certificate] = [o for o in objects if o["kind"] == "Certificate"]
    assert certificate["spec"]["dnsNames"] == ["west-kafka-twin-admission.watch.svc"]
    injected = webhooks["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
    assert injected == "watch/west-kafka-twin-admission"
    [binding] = [o for o in objects if o["kind"] == "ClusterRoleBinding"]
    assert binding["subjects"][0]["namespace"] == "watch"
    deployed = named(objects, "Deployment", "west-kafka-twin-admission")
    [container] = deployed["spec"]["template"]["spec"]["containers"]
    exporter = {e["name"]: e["value"] for e in container["env"]}["KAFKA_TWIN_ADMISSION_EXPORTER"]
    service = named(objects, "Service", "west-kafka-twin-exporter")
    port = service["spec"]["ports"][0]["port"]
    assert exporter == f"http://{service['metadata']['name']}:{port}"


@pytest.mark.parametrize(("archived", "policy"), [(False, "Always"), (True, "Never")])
def test_an_exporter_is_pulled_as_its_image_says(archived: bool, policy: str):
    given = merged(
        merged(EVERYTHING, "image.pullPolicy", "Always"), "sparkImage.pullPolicy", "Never"
    )
    objects = rendered(merged(given, "archive.enabled", archived))
    deployed = named(objects, "Deployment", "kafka-twin-exporter")
    [container] = deployed["spec"]["template"]["spec"]["containers"]
    assert ("spark" in container["image"], container["imagePullPolicy"]) == (archived, policy)


def test_helm_finds_nothing_to_say(tmp_path: Path):
    given = tmp_path / "values.yaml"
    given.write_text(yaml.dump(EVERYTHING))
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART, "--values", given)


def test_rules_and_dashboards_come_out_as_they_are():
    objects = rendered(EVERYTHING)
    rules = {o["metadata"]["name"]: o["spec"] for o in objects if o["kind"] == "PrometheusRule"}
    folder = ROOT / "deploy" / "prometheus" / "rules"
    assert rules == {
        path.name.removesuffix(".rules.yml"): yaml.safe_load(path.read_text())
        for path in folder.glob("*.rules.yml")
    }
    texts = {}
    for each in objects:
        if each["kind"] == "ConfigMap" and each["metadata"]["name"].endswith("-dashboard"):
            texts |= each["data"]
            assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
    files = (ROOT / "grafana" / "dashboards").glob("*.json")
    assert texts == {path.name: path.read_text() for path in files}
    operator = merged(EVERYTHING, "dashboards.kind", "GrafanaDashboard")
    found = [o for o in rendered(operator) if o["kind"] == "GrafanaDashboard"]
    assert sorted(o["spec"]["json"] for o in found) == sorted(texts.values())


@pytest.mark.parametrize("name", ["ServiceMonitor", "PodMonitor", "PrometheusRule"])
def test_kube_prometheus_stack_takes_what_has_its_label(name: str):
    given = merged(EVERYTHING, "monitoring.release", "kps")
    found = [o["metadata"]["labels"] for o in rendered(given) if o["kind"] == name]
    assert found
    assert all(labels["release"] == "kps" for labels in found)
    assert all("release" not in o["metadata"]["labels"] for o in rendered(EVERYTHING))


# ---------------------------------------------------------------- values

ANOTHER: dict[str, Any] = {
    "config": ARCHIVED + "# changed\n",
    "query.checkpoint": "s3a://bucket/other",
    "exporter.ingress.host": "other.example.org",
    "admission.namespaceSelector": {"matchLabels": {"a": "b"}},
    "networkPolicy.from": [{"podSelector": {}}],
    "networkPolicy.egress.ports": [9_192],
    "ipFamilies": ["IPv6"],
    "exporter.scheme": "https",
    "monitoring.programs.scheme": "https",
    "monitoring.exporter.authorization": {"credentials": {"name": "a", "key": "b"}},
    "monitoring.programs.authorization": {"credentials": {"name": "a", "key": "b"}},
    "dashboards.instanceSelector": {"matchLabels": {"a": "b"}},
}
NEEDS: dict[str, dict[str, Any]] = {
    "existingConfigMap": {"config": ""},
    "admission.existingSecret": {"admission.certManager.enabled": False,
                                 "admission.caBundle": "QQ=="},
    "admission.caBundle": {"admission.certManager.enabled": False,
                           "admission.existingSecret": "tls"},
    "admission.certManager.enabled": {"admission.caBundle": "QQ==",
                                      "admission.existingSecret": ""},
    "dashboards.folder": {"dashboards.kind": "GrafanaDashboard"},
    "dashboards.instanceSelector": {"dashboards.kind": "GrafanaDashboard"},
}  # fmt: skip
"""What a value needs beside it, to make a difference."""


SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())


def values_of(defaults: Any, schema: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Path, default and schema of each value; a map whose names the schema leaves open is one."""
    if "$ref" in schema:
        schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
    if defaults and "properties" in schema:
        for name, of_name in schema["properties"].items():
            if name != "global":  # Helm's own
                yield from values_of(defaults[name], of_name, f"{path}.{name}".lstrip("."))
    else:
        yield path, defaults, schema


def another(path: str, default: Any, schema: Any) -> Any:
    """A value that differs from the default."""
    if path in ANOTHER:
        return ANOTHER[path]
    if "enum" in schema:
        return next(each for each in schema["enum"] if each != default)
    match schema["type"]:
        case "boolean":
            return not default
        case "integer":
            return default + 1
        case "object":
            return {"labelled": "x"}
        case "array":
            return [{"name": "x"}]
    return "7s" if path == "monitoring.interval" else "7Gi" if "size" in path else "x"


@pytest.mark.parametrize(("path", "default", "schema"), [*values_of(DEFAULTS, SCHEMA)])
def test_every_value_makes_a_difference(path: str, default: Any, schema: Any):
    of_operator = ("query.checkpoint", "query.executors", "query.sparkConf")
    given: dict[str, Any] = dict(OPERATOR if path in of_operator else EVERYTHING)
    for beside, needed in NEEDS.get(path, {}).items():
        given = merged(given, beside, needed)
    other = another(path, default, schema)
    if path == "query.mode":
        given = merged(given, "query.checkpoint", "s3a://bucket/twin")
    if path == "admission.certManager.enabled":
        with pytest.raises(RefusedError, match="existingSecret and caBundle have to be set"):
            rendered(merged(given, path, other))
        return
    if path.endswith(".enabled"):
        other = False  # all are on in what is given
    try:
        before = text_of(given)
    except RefusedError:  # it is needed
        before = ""
    assert text_of(merged(given, path, other)) != before


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("config", "", "config: is empty: give your twin.toml with --set-file"),
        ("config", "name = 1", r"config: has no section \[cluster\]"),
        ("config", CONFIG, r"archive.enabled: config has no section \[archive\]"),
        ("existingConfigMap", "mine", "config and existingConfigMap: only one"),
        ("query.mode", "sparkOperator", "query.checkpoint: must be set"),
        ("query.mode", "yarn", "query/mode"),
        ("admission.certManager.enabled", False, "existingSecret and caBundle have to be set"),
        ("admission.existingSecret", "tls", "set certManager.enabled to false"),
        ("exporter.ingress.host", "", "exporter.ingress.host: must be set"),
        ("exporter.replicas", "two", "exporter/replicas"),
        ("exporter.replicas", 0, "exporter/replicas"),
        ("query.persistence.size", "ten", "query/persistence/size"),
        ("query.replicas", 2, "query.*additional properties 'replicas' not allowed"),
        ("colector.replicas", 2, "additional properties 'colector' not allowed"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(path: str, value: Any, says: str):
    with pytest.raises(RefusedError) as refused:
        rendered(merged(EVERYTHING, path, value))
    assert re.search(says, str(refused.value)), refused.value


def test_a_change_of_the_configuration_replaces_the_pods():
    def checksum(config: str) -> set[str]:
        return {
            o["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
            for o in rendered({"config": config})
            if o["kind"] in ("Deployment", "StatefulSet")
        }

    [before], [after] = checksum(CONFIG), checksum(CONFIG + "\n[bus]\nshards = 4\n")
    assert before != after


def test_it_is_packaged_with_what_its_links_lead_to(tmp_path: Path):
    helm("package", CHART, "--destination", tmp_path)
    [package] = tmp_path.iterdir()
    assert package.name == f"kafka-twin-{version()}.tgz"
    assert rendered(EVERYTHING, chart=package) == rendered(EVERYTHING)
