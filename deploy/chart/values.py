"""The values of the chart: values.yaml, its JSON schema and a table of docs are made of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from deploy.chart.pod_values import of_all, of_program
from deploy.chart.value import (
    AUTHORIZATION,
    COUNT,
    FLAG,
    MAP,
    OBJECTS,
    PORT,
    PORTS,
    QUANTITY,
    TEXT,
    TEXTS,
    Value,
    one_of,
)


def _image(of: str, repository: str) -> Iterator[Value]:
    yield Value(f"{of}.registry", "", TEXT, "registry, such as `registry.example.org`")
    yield Value(f"{of}.repository", repository, TEXT, "name of the image in it")
    yield Value(f"{of}.tag", "", TEXT, "tag; the version of the chart if empty")
    yield Value(f"{of}.digest", "", TEXT, "digest, such as `sha256:...`, in place of the tag")
    yield Value(f"{of}.pullPolicy", "IfNotPresent", one_of("Always", "IfNotPresent", "Never"),
                "when it is pulled")  # fmt: skip


def _resources(cpu: str, memory: str, most_cpu: str, most_memory: str) -> dict[str, Any]:
    return {
        "requests": {"cpu": cpu, "memory": memory},
        "limits": {"cpu": most_cpu, "memory": most_memory},
    }


def _persistence(of: str, size: str) -> Iterator[Value]:
    yield Value(f"{of}.persistence.size", size, QUANTITY, "size of the volume of its checkpoint")
    yield Value(f"{of}.persistence.storageClass", "", TEXT, "class; the default one if empty")


VALUES: Final[Sequence[Value]] = (
    Value("nameOverride", "", TEXT, "the label `app.kubernetes.io/name`, if not the chart's name"),
    Value("fullnameOverride", "", TEXT, "what names begin with, if not the release's name"),
    Value("commonLabels", {}, TEXTS, "labels of all objects"),
    Value("openshift", "auto", {"enum": ["auto", True, False]},
          "no user and no group is asked for: OpenShift (`restricted-v2`) gives them out. `auto`: "
          "where the API server knows `security.openshift.io`"),
    Value("ipFamilyPolicy", "", one_of("", "SingleStack", "PreferDualStack", "RequireDualStack"),
          "of all Services; what the cluster does if empty"),
    Value("ipFamilies", [], {"type": "array", "maxItems": 2, "items": one_of("IPv4", "IPv6")},
          "of all Services, in order"),
    *of_all(),
    *_image("image", "kafka-twin"),
    *_image("sparkImage", "kafka-twin-spark"),
    Value("imagePullSecrets", [], OBJECTS, "secrets for the registry: `[{name: ...}]`"),
    Value("config", "", TEXT,
          "`twin.toml`, the configuration: `--set-file config=twin.toml`. "
          "It needs at least `[cluster]` with `name` and `bootstrap`"),
    Value("existingConfigMap", "", TEXT,
          "a ConfigMap with the key `twin.toml`, in place of `config`"),
    Value("existingSecret", "kafka-twin-secrets", TEXT,
          "a Secret whose keys are environment variables with passwords; it need not be there"),
    Value("existingCaSecret", "kafka-twin-ca", TEXT,
          "a Secret with `ca.crt`, mounted at `/etc/kafka-twin-ca`; it need not be there"),
    Value("collector.replicas", 1, COUNT, "collectors; observations of two are all taken"),
    *of_program("collector", _resources("100m", "256Mi", "1", "1Gi")),
    Value("exporter.replicas", 2, COUNT, "exporters"),
    *of_program("exporter", _resources("100m", "256Mi", "1", "2Gi")),
    Value("exporter.scheme", "", one_of("", "http", "https"),
          "scheme at its port. Empty: https where `config` or `extraEnv` has the certificate of "
          "`[access]`; say it where an `existingConfigMap` or a Secret has it"),
    Value("exporter.service.type", "ClusterIP", one_of("ClusterIP", "NodePort", "LoadBalancer"),
          "type of its Service"),
    Value("exporter.service.port", 9410, PORT, "port of its Service"),
    Value("exporter.service.annotations", {}, TEXTS, "annotations of its Service"),
    Value("exporter.podDisruptionBudget.enabled", True, FLAG, "a drain leaves one exporter"),
    Value("exporter.ingress.enabled", False, FLAG,
          "an Ingress for console and API. Set `[access]` first: who reaches it sees the cluster"),
    Value("exporter.ingress.className", "", TEXT, "class of the Ingress"),
    Value("exporter.ingress.annotations", {}, TEXTS, "its annotations"),
    Value("exporter.ingress.host", "", TEXT, "its host"),
    Value("exporter.ingress.tls", [], OBJECTS, "its TLS: `[{hosts: [...], secretName: ...}]`"),
    Value("query.mode", "statefulSet", one_of("statefulSet", "sparkOperator"),
          "Spark in one pod, or a SparkApplication of the Apache Spark operator"),
    *of_program("query", _resources("1", "2Gi", "2", "3Gi"), volume=True),
    *_persistence("query", "10Gi"),
    Value("query.checkpoint", "", TEXT,
          "with `sparkOperator`: URL of the checkpoint, which driver and executors reach"),
    Value("query.executors", 2, COUNT, "with `sparkOperator`: executors"),
    Value("query.sparkConf", {}, TEXTS, "with `sparkOperator`: more settings of Spark"),
    Value("archive.enabled", False, FLAG,
          "keep the past; `config` needs `[archive]` with `path`, a URL that all pods reach"),
    *of_program("archive", _resources("250m", "1Gi", "1", "2Gi"), volume=True),
    *_persistence("archive", "1Gi"),
    Value("admission.enabled", False, FLAG, "the webhook that lets broker pods go when it is safe"),
    *of_program("admission", _resources("20m", "96Mi", "1", "256Mi"), asks_api=True),
    Value("admission.failurePolicy", "Fail", one_of("Fail", "Ignore"),
          "without the webhook no broker pod goes (`Fail`), or each may"),
    Value("admission.timeoutSeconds", 25, {"type": "integer", "minimum": 1, "maximum": 30},
          "how long the API server waits; more than `admission.deadline_ms`"),
    Value("admission.namespaceSelector", {"matchLabels": {"kafka-twin.io/brokers": "true"}}, MAP,
          "the namespaces with brokers"),
    Value("admission.certManager.enabled", True, FLAG, "cert-manager makes its certificate"),
    Value("admission.existingSecret", "", TEXT,
          "without cert-manager: a Secret with `tls.crt` and `tls.key`"),
    Value("admission.caBundle", "", TEXT,
          "without cert-manager: the authority of that certificate, PEM in base64"),
    Value("networkPolicy.enabled", True, FLAG, "nobody reaches the pods but who has to"),
    Value("networkPolicy.from", [{"namespaceSelector": {}}], {**OBJECTS, "minItems": 1},
          "who reaches the exporter and the ports `metrics`: narrow it to your Prometheus"),
    Value("networkPolicy.egress.enabled", False, FLAG,
          "the pods reach nothing but DNS, each other, brokers and what is said here"),
    Value("networkPolicy.egress.ports", [9092, 9093, 9094], PORTS,
          "ports of the brokers, their bootstrap and their metrics"),
    Value("networkPolicy.egress.to", [], OBJECTS,
          "where these ports are reached: namespaces, pods, networks of IPv4 and IPv6; anywhere if "
          "empty"),
    Value("networkPolicy.egress.more", [], OBJECTS,
          "more rules: storage of the archive, token endpoint, Grafana"),
    Value("monitoring.enabled", False, FLAG,
          "ServiceMonitor, PodMonitor and PrometheusRules, for the Prometheus operator"),
    Value("monitoring.release", "", TEXT,
          "their label `release`: kube-prometheus-stack wants the name of its own release"),
    Value("monitoring.labels", {}, TEXTS, "more labels of theirs"),
    Value("monitoring.interval", "15s", {"type": "string", "pattern": "^[0-9]+(ms|s|m)$"},
          "how often metrics are scraped"),
    Value("monitoring.exporter.authorization", {}, AUTHORIZATION,
          "with `access.token`: `credentials: {name: SECRET, key: KEY}`, of a Secret"),
    Value("monitoring.exporter.tlsConfig", {}, MAP,
          "with a certificate: `ca`, `serverName`, as a ServiceMonitor has it"),
    Value("monitoring.programs.scheme", "http", one_of("http", "https"),
          "scheme at the ports `metrics` of the other programs: https if a proxy of yours, such as "
          "that of a service mesh, is before them"),
    Value("monitoring.programs.authorization", {}, AUTHORIZATION, "what that proxy asks for"),
    Value("monitoring.programs.tlsConfig", {}, MAP, "`ca`, `serverName` of that proxy"),
    Value("monitoring.rules", True, FLAG, "with alert rules"),
    Value("dashboards.enabled", False, FLAG, "Grafana's dashboards"),
    Value("dashboards.kind", "ConfigMap", one_of("ConfigMap", "GrafanaDashboard"),
          "for Grafana's sidecar, or for the Grafana operator"),
    Value("dashboards.labels", {"grafana_dashboard": "1"}, TEXTS, "the sidecar looks for them"),
    Value("dashboards.annotations", {"grafana_folder": "Kafka twin"}, TEXTS, "their annotations"),
    Value("dashboards.folder", "Kafka twin", TEXT, "the Grafana operator's folder"),
    Value("dashboards.instanceSelector", {"matchLabels": {"dashboards": "grafana"}}, MAP,
          "which Grafanas of the operator show them"),
)  # fmt: skip


def tree() -> dict[str, Any]:
    """The defaults as values.yaml has them."""
    found: dict[str, Any] = {}
    for value in VALUES:
        *parents, name = value.path.split(".")
        here = found
        for parent in parents:
            here = here.setdefault(parent, {})
        here[name] = value.default
    return found


def schema() -> dict[str, Any]:
    """The JSON schema: nothing but these values is taken. ``global`` is Helm's own."""
    found = _closed()
    for value in VALUES:
        *parents, name = value.path.split(".")
        here = found
        for parent in parents:
            here = here["properties"].setdefault(parent, _closed())
        here["properties"][name] = {**value.schema, "description": value.text}
    found["properties"]["global"] = {"type": "object"}
    return {"$schema": "https://json-schema.org/draft-07/schema#", **found}


def _closed() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": {}}
