"""The chart as owners of clusters secure it: probes, rights, accounts, networks, families."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest

from deploy.dist import CHART
from tests.deploy.test_examples import VERSIONS
from tests.kubernetes.charting import (
    CONFIG,
    EVERYTHING,
    Manifest,
    RefusedError,
    helm,
    merged,
    named,
    rendered,
)
from tests.kubernetes.combinations import COMBINATIONS, MOUNT, ROLE, TLS, TOKEN

pytestmark = pytest.mark.helm

PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
OTHER_APIS = ("cert-manager.io/v1", "grafana.integreatly.org/v1beta1", "monitoring.coreos.com/v1",
              "spark.apache.org/v1")  # fmt: skip
"""API groups of operators: kubernetes-validate has no schema of theirs."""


def pods(objects: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """The spec of each pod, and its name: the component's, driver or executor."""
    for each in objects:
        if each["kind"] in ("Deployment", "StatefulSet"):
            component = each["metadata"]["labels"]["app.kubernetes.io/component"]
            yield component, each["spec"]["template"]["spec"]
        if each["kind"] == "SparkApplication":
            for role in ("driver", "executor"):
                yield role, each["spec"][f"{role}Spec"]["podTemplateSpec"]["spec"]


def of(name: str) -> list[Manifest]:
    return rendered(COMBINATIONS[name])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", COMBINATIONS)
def test_kubernetes_knows_every_field(name: str, version: str):
    for each in of(name):
        if each["apiVersion"] not in OTHER_APIS:
            kubernetes_validate.validate(each, version, strict=True)
    for role, spec in pods(of(name)):
        containers = [{"image": "given by Spark", **each} for each in spec["containers"]]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": role},
               "spec": {**spec, "containers": containers}}  # fmt: skip
        kubernetes_validate.validate(pod, version, strict=True)


def schemes(objects: list[Manifest]) -> set[str]:
    """The schemes by which the exporter is probed, scraped and asked by the webhook."""
    deployed = named(objects, "Deployment", "kafka-twin-exporter")
    [container] = deployed["spec"]["template"]["spec"]["containers"]
    found = {container[probe]["httpGet"].get("scheme", "HTTP").lower() for probe in PROBES}
    [endpoint] = named(objects, "ServiceMonitor", "kafka-twin-exporter")["spec"]["endpoints"]
    judge = named(objects, "Deployment", "kafka-twin-admission")
    [container] = judge["spec"]["template"]["spec"]["containers"]
    environment = {each["name"]: each["value"] for each in container["env"]}
    asked = environment["KAFKA_TWIN_ADMISSION_EXPORTER"].partition(":")[0]
    return found | {endpoint.get("scheme", "http"), asked}


def with_config(more: str, **values: Any) -> dict[str, Any]:
    given = merged(EVERYTHING, "config", EVERYTHING["config"] + more)
    for path, value in values.items():
        given = merged(given, path.replace("__", "."), value)
    return given


VARIABLE = {"name": "KAFKA_TWIN_ACCESS_CERTIFICATE", "value": "/tls.crt"}


@pytest.mark.parametrize(
    ("values", "scheme"),
    [
        (with_config(""), "http"),
        (with_config(TLS), "https"),
        (with_config(TLS.replace("\n", "\r\n")), "https"),
        (with_config('[access]\ntoken = "x"\n# certificate = "a"\n'), "http"),
        (with_config('[access]\ncertificate = ""\n'), "http"),
        (with_config('[access]\ntoken = "x"\n[admission]\ncertificate = "a"\n'), "http"),
        (with_config('[bus]\nshards = 4\n[access]\ntoken = "x"\n\n  certificate = "a"\n'), "https"),
        (
            merged(EVERYTHING, "config", 'access.certificate = "a"\n' + EVERYTHING["config"]),
            "https",
        ),
        (with_config("", extraEnv=[VARIABLE]), "https"),
        (with_config("", exporter__extraEnv=[VARIABLE]), "https"),
        (with_config("", collector__extraEnv=[VARIABLE]), "http"),
        (with_config(TLS, exporter__scheme="http"), "http"),
        (with_config("", config="", existingConfigMap="mine", exporter__scheme="https"), "https"),
    ],
)
def test_the_exporter_is_asked_by_tls_where_it_has_a_certificate(
    values: dict[str, Any], scheme: str
):
    assert schemes(rendered(values)) == {scheme}


def test_prometheus_shows_a_token_and_trusts_the_exporters_authority():
    [endpoint] = named(of("a token"), "ServiceMonitor", "kafka-twin-exporter")["spec"]["endpoints"]
    assert endpoint["authorization"] == {"credentials": TOKEN}
    objects = of("TLS, and a proxy before metrics")
    [endpoint] = named(objects, "ServiceMonitor", "kafka-twin-exporter")["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["ca"]["secret"]["key"] == "ca.crt"
    programs = named(objects, "PodMonitor", "kafka-twin-programs")["spec"]
    [endpoint] = programs["podMetricsEndpoints"]
    assert (endpoint["scheme"], endpoint["tlsConfig"]) == ("https", {"insecureSkipVerify": True})
    for spec in dict(pods(objects)).values():
        assert MOUNT in spec["containers"][0]["volumeMounts"]


def test_no_pod_asks_openshift_for_a_user_or_a_group():
    seen = dict(pods(of("OpenShift, the operator")))
    assert seen.keys() == {"collector", "exporter", "archive", "admission", "driver", "executor"}
    for spec in seen.values():
        for context in (spec["securityContext"], spec["containers"][0]["securityContext"]):
            assert not {"runAsUser", "runAsGroup", "fsGroup"} & context.keys()
        assert spec["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize(("value", "asks"), [("auto", False), (False, True), (True, False)])
def test_openshift_is_known_by_its_api(value: Any, asks: bool):
    given = f"config: {CONFIG!r}\nopenshift: {value}\n"
    text = helm("template", "x", CHART, "--values", "-", "--api-versions",
                "security.openshift.io/v1", given=given)  # fmt: skip
    assert ("fsGroup" in text) is asks


def test_users_and_groups_are_values_and_those_of_a_program_come_over_those_of_all():
    seen = dict(pods(of("both families, users of its own")))
    assert {spec["securityContext"]["runAsUser"] for spec in seen.values()} == {2_000}
    query, collector = seen["query"], seen["collector"]
    assert query["securityContext"]["fsGroup"] == 3_000
    assert query["containers"][0]["securityContext"]["runAsUser"] == 5_000
    assert query["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert collector["securityContext"]["supplementalGroups"] == [4_000]
    assert "fsGroup" not in collector["securityContext"]


def test_a_default_goes_where_a_value_is_null():
    """Helm merges maps, so what is not to be there has to be named."""
    given = merged({"config": CONFIG}, "query.podSecurityContext.fsGroup", None)
    assert "fsGroup" not in dict(pods(rendered(given)))["query"]["securityContext"]


def test_accounts_have_annotations_or_are_those_of_the_platform():
    objects = of("roles of the cloud")
    accounts = {o["metadata"]["name"]: o for o in objects if o["kind"] == "ServiceAccount"}
    assert accounts.keys() == {"kafka-twin-collector", "kafka-twin-archive", "judge"}
    for name in ("kafka-twin-collector", "kafka-twin-archive"):
        assert accounts[name]["metadata"]["annotations"] == ROLE
    used = {of: spec["serviceAccountName"] for of, spec in pods(objects)}
    assert used == {
        "collector": "kafka-twin-collector", "exporter": "default", "query": "of-the-platform",
        "archive": "kafka-twin-archive", "admission": "judge",
    }  # fmt: skip
    binding = named(objects, "ClusterRoleBinding", "kafka-twin-admission")
    assert [each["name"] for each in binding["subjects"]] == ["judge"]
    collector = dict(pods(objects))["collector"]
    assert [each["ip"] for each in collector["hostAliases"]] == ["fd00::7", "10.0.0.7"]


@pytest.mark.parametrize(
    ("name", "policy", "families"),
    [
        ("IPv6 alone, nothing else open", "SingleStack", ["IPv6"]),
        ("both families, users of its own", "PreferDualStack", ["IPv6", "IPv4"]),
    ],
)
def test_every_service_has_the_families(name: str, policy: str, families: list[str]):
    services = [o["spec"] for o in of(name) if o["kind"] == "Service"]
    assert len(services) >= 2
    for spec in services:
        assert (spec["ipFamilyPolicy"], spec["ipFamilies"]) == (policy, families)
    for application in (o["spec"] for o in of(name) if o["kind"] == "SparkApplication"):
        of_driver = "spark.kubernetes.driver.service."
        conf = application["sparkConf"]
        assert conf[f"{of_driver}ipFamilyPolicy"] == policy
        assert conf[f"{of_driver}ipFamilies"] == ",".join(families)


def test_what_may_leave_is_names_each_other_brokers_and_what_is_said():
    objects = of("IPv6 alone, nothing else open")
    rules = named(objects, "NetworkPolicy", "kafka-twin-egress")["spec"]["egress"]
    dns, peers, brokers, more = rules
    assert {port["port"] for port in dns["ports"]} == {53, 5353}
    assert "to" not in dns
    [peer] = peers["to"]
    labels = peer["podSelector"]["matchLabels"]
    assert labels["app.kubernetes.io/instance"] == "kafka-twin"
    assert [port["port"] for port in brokers["ports"]] == [9092, 9093, 9094]
    assert brokers["to"] == [{"ipBlock": {"cidr": "fd00:20::/64"}}]
    assert more == {"ports": [{"protocol": "TCP", "port": 443}]}
    api = named(objects, "NetworkPolicy", "kafka-twin-egress-api-server")["spec"]
    [expression] = api["podSelector"]["matchExpressions"]
    assert expression["values"] == ["admission", "query"]
    exporter = named(objects, "NetworkPolicy", "kafka-twin-exporter")["spec"]
    webhook, prometheus = exporter["ingress"][0]["from"]
    assert webhook["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "admission"
    assert prometheus == {"ipBlock": {"cidr": "fd00:10::/64"}}
    spark = named(objects, "NetworkPolicy", "kafka-twin-query")["spec"]["ingress"]
    assert [port["port"] for port in spark[0]["ports"]] == [7078, 7079]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("openshift", "yes"),
        ("ipFamilies", ["IPv5"]),
        ("ipFamilyPolicy", "Both"),
        ("exporter.scheme", "HTTPS"),
        ("monitoring.exporter.authorization", {"credentials": {"name": "x"}}),
        ("monitoring.exporter.authorization", {"token": "x"}),
        ("networkPolicy.from", []),
        ("networkPolicy.egress.ports", [0]),
        ("collector.serviceAccount", {"annotation": {}}),
    ],
)
def test_what_cannot_be_is_refused_by_its_path(path: str, value: Any):
    with pytest.raises(RefusedError, match=path.replace(".", "/")):
        rendered(merged(EVERYTHING, path, value))
