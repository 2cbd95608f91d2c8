"""The chart: what Helm makes of it is what the manifests say, and every value does something."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from deploy.chart import chart, values
from tests.deploy.test_kubernetes import OTHERS, VERSIONS
from tests.kubernetes.charting import (
    ARCHIVED,
    CONFIG,
    EVERYTHING,
    Manifest,
    RefusedError,
    helm,
    merged,
    named,
    rendered,
    text_of,
)

pytestmark = pytest.mark.helm

OPERATOR = merged(
    merged(EVERYTHING, "query.mode", "sparkOperator"), "query.checkpoint", "s3a://bucket/twin"
)
COMPONENT = "app.kubernetes.io/component"
OF_HELM = ("helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/version",
           "app.kubernetes.io/instance", "app.kubernetes.io/name")  # fmt: skip


def keyed(objects: list[Manifest]) -> dict[tuple[str, str], Manifest]:
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def plain(value: Any, key: str = "") -> Any:
    """A manifest without the labels, annotations and defaults that a chart adds."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {
        k: plain(v, k)
        for k, v in value.items()
        if k not in (*OF_HELM, "imagePullPolicy", "checksum/config",
                     "spark.kubernetes.container.image.pullPolicy")
    }  # fmt: skip
    if key == "spec" and found.get("type") == "ClusterIP":  # of a Service, the default
        del found["type"]
    return {k: v for k, v in found.items() if v != {} or k in ("podSelector", "namespaceSelector")}


def without_empty_selectors(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            k: without_empty_selectors(v)
            for k, v in value.items()
            if not (k in ("matchLabels", "labels", "annotations") and v == {})
        }
    return [*map(without_empty_selectors, value)] if isinstance(value, list) else value


@pytest.mark.parametrize("with_operator", [False, True])
def test_it_has_the_objects_of_the_manifests_and_nothing_of_them_is_lost(with_operator: bool):
    made = keyed(rendered(OPERATOR if with_operator else EVERYTHING))
    mode = chart._OPERATOR if with_operator else chart._ONE_POD
    other = chart._ONE_POD if with_operator else chart._OPERATOR
    of_manifests = {
        (each["kind"], each["metadata"]["name"]): (template, each)
        for template in chart.TEMPLATES
        if template.condition != other
        for each in chart.manifests(template.manifest)
    }
    assert mode in {template.condition for template, _ in of_manifests.values()}
    for key, (_, manifest) in of_manifests.items():
        expected = copy.deepcopy(manifest)
        if key == ("Deployment", "kafka-twin-exporter"):  # it reads the archive
            [container] = expected["spec"]["template"]["spec"]["containers"]
            container["image"] = "kafka-twin-spark:0.1.0"
        if key[0] == "SparkApplication":
            [driver] = expected["spec"]["driverSpec"]["podTemplateSpec"]["spec"]["containers"]
            driver["env"][0]["value"] = "s3a://bucket/twin"
        found = without_empty_selectors(plain(made[key]))
        assert found == without_empty_selectors(plain(expected)), key


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


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("release", ["kafka-twin", "west"])
@pytest.mark.parametrize("given", [EVERYTHING, OPERATOR], ids=["one pod", "operator"])
def test_kubernetes_knows_every_field(given: dict[str, Any], release: str, version: str):
    for each in rendered(given, release):
        if each["apiVersion"] not in (*OTHERS, "grafana.integreatly.org/v1beta1"):
            kubernetes_validate.validate(each, version, strict=True)


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
    assert "0 chart(s) failed" in helm("lint", "--strict", chart.CHART, "--values", given)


def test_rules_and_dashboards_come_out_as_they_are():
    objects = rendered(EVERYTHING)
    rules = {o["metadata"]["name"]: o["spec"] for o in objects if o["kind"] == "PrometheusRule"}
    folder = chart.ROOT / "deploy" / "prometheus" / "rules"
    assert rules == {
        path.name.removesuffix(".rules.yml"): yaml.safe_load(path.read_text())
        for path in folder.glob("*.rules.yml")
    }
    texts = {}
    for each in objects:
        if each["kind"] == "ConfigMap" and each["metadata"]["name"].endswith("-dashboard"):
            texts |= each["data"]
            assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
    files = (chart.ROOT / "grafana" / "dashboards").glob("*.json")
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


def another(value: values.Value) -> Any:
    """A value that differs from the default."""
    if value.path in ANOTHER:
        return ANOTHER[value.path]
    if "enum" in value.schema:
        return next(each for each in value.schema["enum"] if each != value.default)
    match value.schema["type"]:
        case "boolean":
            return not value.default
        case "integer":
            return value.default + 1
        case "object":
            return {"labelled": "x"}
        case "array":
            return [{"name": "x"}]
    return "7s" if value.path == "monitoring.interval" else "7Gi" if "size" in value.path else "x"


@pytest.mark.parametrize("value", values.VALUES, ids=lambda v: v.path)
def test_every_value_makes_a_difference(value: values.Value):
    of_operator = ("query.checkpoint", "query.executors", "query.sparkConf")
    given: dict[str, Any] = dict(OPERATOR if value.path in of_operator else EVERYTHING)
    for path, needed in NEEDS.get(value.path, {}).items():
        given = merged(given, path, needed)
    other = another(value)
    if value.path == "query.mode":
        given = merged(given, "query.checkpoint", "s3a://bucket/twin")
    if value.path == "admission.certManager.enabled":
        with pytest.raises(RefusedError, match="existingSecret and caBundle have to be set"):
            rendered(merged(given, value.path, other))
        return
    if value.path.endswith(".enabled"):
        other = False  # all are on in what is given
    try:
        before = text_of(given)
    except RefusedError:  # it is needed
        before = ""
    assert text_of(merged(given, value.path, other)) != before


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
    helm("package", chart.CHART, "--destination", tmp_path)
    [package] = tmp_path.iterdir()
    assert package.name == f"kafka-twin-{chart.version()}.tgz"
    assert rendered(EVERYTHING, chart=package) == rendered(EVERYTHING)
