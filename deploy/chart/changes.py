"""Changes a manifest for the chart: names, labels, selectors, and expressions for values."""

from __future__ import annotations

import re
from typing import Any, Final

from deploy.chart import pods
from deploy.chart.marks import Marks
from deploy.chart.pods import Manifest

_OURS: Final = re.compile(r"kafka-twin(-[a-z]+)*")
_NAMED: Final = ("name", "serviceName", "secretName")
"""Keys whose value is the name of an object."""

_ACCOUNTS: Final = ("serviceAccountName", "spark.kubernetes.authenticate.driver.serviceAccountName")
"""Keys whose value is the name of a service account, which may be yours."""

_SECRETS: Final = {
    "kafka-twin-secrets": ".Values.existingSecret",
    "kafka-twin-ca": ".Values.existingCaSecret",
}
_CONFIG: Final = "kafka-twin-config"
_NAMESPACE: Final = ".Release.Namespace"
_ADMISSION: Final = ".Values.admission"
_POD_KINDS: Final = ("Deployment", "StatefulSet")


def changed(manifest: Manifest, marks: Marks) -> Manifest:
    """The manifest of one object, as kustomize reads it, with the marks of the chart."""
    made: Manifest = _renamed(manifest, marks, "")
    of = made["metadata"].get("labels", {}).get(pods.COMPONENT, "")
    _label(made["metadata"], marks)
    kind = made["kind"]
    if kind == "Service":
        made["spec"]["selector"] = _chosen(made["spec"]["selector"], marks)
    else:
        _select(made, marks)
    if kind in _POD_KINDS:
        pods.change(made, of, marks)
    elif kind == "SparkApplication":
        _spark(made["spec"], marks)
    elif kind in _OTHERS:
        _OTHERS[kind](made, marks)
    return made


# ---------------------------------------------------------------- names, labels, selectors


def _renamed(value: Any, marks: Marks, key: str) -> Any:
    if isinstance(value, dict):
        return {k: _renamed(v, marks, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_renamed(v, marks, key) for v in value]
    if key in _ACCOUNTS:
        return _account(value, marks)
    if key in _NAMED and isinstance(value, str) and _OURS.fullmatch(value):
        if value in _SECRETS:
            return marks.value(_SECRETS[value])
        if value == _CONFIG:
            return marks.value('include "kafka-twin.config" .')
        return marks.value(pods.FULL_NAME) + value.removeprefix("kafka-twin")
    return value


def _account(name: str, marks: Marks) -> str:
    of = name.removeprefix("kafka-twin-")
    return marks.value(f'include "kafka-twin.serviceAccount" (list . "{of}")')


def _label(metadata: Manifest, marks: Marks) -> None:
    """All labels of the chart, and the component."""
    own = {k: v for k, v in metadata.pop("labels", {}).items() if k != pods.NAME}
    metadata["labels"] = {marks.lines('(include "kafka-twin.labels" .)'): None, **own}


def _select(value: Any, marks: Marks) -> None:
    """Selectors choose pods of this release alone."""
    if isinstance(value, list):
        for each in value:
            _select(each, marks)
    if not isinstance(value, dict):
        return
    for key, inner in [*value.items()]:
        if key not in ("selector", "podSelector"):
            _select(inner, marks)
        else:
            labels = inner.pop("matchLabels", {})
            value[key] = {"matchLabels": _chosen(labels, marks), **inner}


def _chosen(labels: Manifest, marks: Marks) -> Manifest:
    own = {k: v for k, v in labels.items() if k != pods.NAME}
    return {marks.lines('(include "kafka-twin.selectorLabels" .)'): None, **own}


# ---------------------------------------------------------------- other kinds


def _spark(spec: Manifest, marks: Marks) -> None:
    conf = spec["sparkConf"]
    conf["spark.kubernetes.container.image"] = marks.value(
        'include "kafka-twin.image" (list . "sparkImage")'
    )
    conf["spark.kubernetes.container.image.pullPolicy"] = marks.value(
        ".Values.sparkImage.pullPolicy"
    )
    conf["spark.executor.instances"] = marks.value(".Values.query.executors | quote")
    conf[marks.lines('(include "kafka-twin.sparkFamilies" .)')] = None
    conf[marks.lines('(include "kafka-twin.yaml" .Values.query.sparkConf)')] = None
    for role in ("driver", "executor"):
        template = spec[f"{role}Spec"]["podTemplateSpec"]
        [container] = template["spec"]["containers"]
        pods.template(template, "query", marks)
        if role == "driver":  # executors get no environment of their own
            pods.environment(container, "query", marks)


def _service_account(made: Manifest, marks: Marks) -> None:
    of = made["metadata"]["labels"][pods.COMPONENT]
    made["metadata"]["name"] = _account(f"kafka-twin-{of}", marks)
    given = f".Values.{of}.serviceAccount.annotations"
    made["metadata"][marks.lines(f'(include "kafka-twin.annotations" {given})')] = None


def _service(made: Manifest, marks: Marks) -> None:
    made["spec"][marks.lines('(include "kafka-twin.ipFamilies" .)')] = None
    if made["metadata"]["labels"].get(pods.COMPONENT) != "exporter":
        return
    of = ".Values.exporter.service"
    made["metadata"][marks.lines(f'(include "kafka-twin.annotations" {of}.annotations)')] = None
    [port] = made["spec"]["ports"]
    port["port"] = marks.value(f"{of}.port")
    made["spec"]["type"] = marks.value(f"{of}.type")


def _network_policy(made: Manifest, marks: Marks) -> None:
    for ingress in made["spec"]["ingress"]:
        peers = ingress.get("from", [])
        if {"namespaceSelector": {}} in peers:
            peers.remove({"namespaceSelector": {}})
            peers.append(marks.lines('(include "kafka-twin.yaml" .Values.networkPolicy.from)'))


def _certificate(made: Manifest, marks: Marks) -> None:
    service = f"{marks.value(pods.FULL_NAME)}-admission"
    made["spec"]["dnsNames"] = [f"{service}.{marks.value(_NAMESPACE)}.svc"]


def _binding(made: Manifest, marks: Marks) -> None:
    for subject in made["subjects"]:
        # It was named as an object, before it was known as an account.
        of = subject["name"].rpartition("-")[2]
        subject["name"] = _account(f"kafka-twin-{of}", marks)
        if "namespace" in subject:
            subject["namespace"] = marks.value(_NAMESPACE)


def _webhooks(made: Manifest, marks: Marks) -> None:
    del made["metadata"]["annotations"]
    injected = '(include "kafka-twin.admissionAnnotations" .)'
    made["metadata"][marks.lines(injected)] = None
    [webhook] = made["webhooks"]
    webhook["failurePolicy"] = marks.value(f"{_ADMISSION}.failurePolicy")
    webhook["timeoutSeconds"] = marks.value(f"{_ADMISSION}.timeoutSeconds")
    webhook["namespaceSelector"] = marks.block(f"{_ADMISSION}.namespaceSelector")
    client = webhook["clientConfig"]
    client["service"]["namespace"] = marks.value(_NAMESPACE)
    client[marks.lines('(include "kafka-twin.admissionCaBundle" .)')] = None


def _monitor(made: Manifest, marks: Marks) -> None:
    labels = made["metadata"]["labels"]
    labels[marks.lines('(include "kafka-twin.monitoringLabels" .)')] = None
    for key, of in (("endpoints", "Exporter"), ("podMetricsEndpoints", "Programs")):
        for endpoint in made["spec"].get(key, ()):
            endpoint["interval"] = marks.value(".Values.monitoring.interval")
            endpoint[marks.lines(f'(include "kafka-twin.scrape{of}" .)')] = None


_OTHERS: Final = {
    "Service": _service,
    "ServiceAccount": _service_account,
    "NetworkPolicy": _network_policy,
    "Certificate": _certificate,
    "RoleBinding": _binding,
    "ClusterRoleBinding": _binding,
    "ValidatingWebhookConfiguration": _webhooks,
    "ServiceMonitor": _monitor,
    "PodMonitor": _monitor,
}
