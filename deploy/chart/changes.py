"""Changes a manifest for the chart: names, labels, selectors, and expressions for values."""

from __future__ import annotations

import re
from typing import Any, Final

from deploy.chart.marks import Marks

Manifest = dict[str, Any]

_COMPONENT: Final = "app.kubernetes.io/component"
_NAME: Final = "app.kubernetes.io/name"
_OURS: Final = re.compile(r"kafka-twin(-[a-z]+)*")
_NAMED: Final = ("name", "serviceName", "serviceAccountName", "secretName",
                 "spark.kubernetes.authenticate.driver.serviceAccountName")  # fmt: skip
"""Keys whose value is the name of an object."""

_SECRETS: Final = {"kafka-twin-secrets": ".Values.existingSecret",
                   "kafka-twin-ca": ".Values.existingCaSecret"}  # fmt: skip
_CONFIG: Final = "kafka-twin-config"
_NAMESPACE: Final = ".Release.Namespace"
_FULL_NAME: Final = 'include "kafka-twin.fullname" .'
_ADMISSION: Final = ".Values.admission"
_POD_KINDS: Final = ("Deployment", "StatefulSet")


def changed(manifest: Manifest, marks: Marks) -> Manifest:
    """The manifest of one object, as kustomize reads it, with the marks of the chart."""
    made: Manifest = _renamed(manifest, marks, "")
    of = made["metadata"].get("labels", {}).get(_COMPONENT, "")
    _label(made["metadata"], marks)
    kind = made["kind"]
    if kind == "Service":
        made["spec"]["selector"] = _chosen(made["spec"]["selector"], marks)
    else:
        _select(made, marks)
    if kind in _POD_KINDS:
        _replicas(made, of, marks)
        template = made["spec"]["template"]
        [container] = template["spec"]["containers"]
        _pod(template, of, marks)
        _container(container, of, marks)
        _volumes(made, of, marks)
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
    if key in _NAMED and isinstance(value, str) and _OURS.fullmatch(value):
        if value in _SECRETS:
            return marks.value(_SECRETS[value])
        if value == _CONFIG:
            return marks.value('include "kafka-twin.config" .')
        return marks.value(_FULL_NAME) + value.removeprefix("kafka-twin")
    return value


def _label(metadata: Manifest, marks: Marks) -> None:
    """All labels of the chart, and the component."""
    own = {k: v for k, v in metadata.pop("labels", {}).items() if k != _NAME}
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
    own = {k: v for k, v in labels.items() if k != _NAME}
    return {marks.lines('(include "kafka-twin.selectorLabels" .)'): None, **own}


# ---------------------------------------------------------------- pods


def _replicas(made: Manifest, of: str, marks: Marks) -> None:
    if of in ("collector", "exporter"):  # of the others there is one
        made["spec"]["replicas"] = marks.value(f".Values.{of}.replicas")


def _pod(template: Manifest, of: str, marks: Marks) -> None:
    metadata, spec = template["metadata"], template["spec"]
    own = {k: v for k, v in metadata["labels"].items() if k != _NAME}
    metadata["labels"] = {
        marks.lines('(include "kafka-twin.selectorLabels" .)'): None, **own,
        marks.lines(f'(include "kafka-twin.yaml" .Values.{of}.podLabels)'): None,
    }  # fmt: skip
    metadata["annotations"] = {
        "checksum/config": marks.value('include "kafka-twin.checksum" .'),
        marks.lines(f'(include "kafka-twin.yaml" .Values.{of}.podAnnotations)'): None,
    }
    scheduling = marks.lines(f'(include "kafka-twin.scheduling" (dict "root" . "of" .Values.{of}))')
    template["spec"] = {scheduling: None, **spec}


def _container(container: Manifest, of: str, marks: Marks) -> None:
    key = '"sparkImage"' if "spark" in container["image"] else '"image"'
    if of == "exporter":  # the small image has no reader of Delta tables
        key = '(ternary "sparkImage" "image" .Values.archive.enabled)'
    container["image"] = marks.value(f'include "kafka-twin.image" (list . {key})')
    container["imagePullPolicy"] = marks.value(f"(index .Values {key}).pullPolicy")
    container["resources"] = marks.block(f".Values.{of}.resources")
    _environment(container, of, marks)


def _environment(container: Manifest, of: str, marks: Marks) -> None:
    for variable in container.get("env", ()):
        if "//kafka-twin-exporter" in variable["value"]:
            port = marks.value(".Values.exporter.service.port")
            variable["value"] = f"http://{marks.value(_FULL_NAME)}-exporter:{port}"
        if variable["name"] == "KAFKA_TWIN_QUERY_CHECKPOINT":
            variable["value"] = marks.value(".Values.query.checkpoint | quote")
    more = marks.lines(f'(include "kafka-twin.yaml" .Values.{of}.extraEnv)')
    if "env" in container:
        container["env"] = [*container["env"], more]
    else:
        container[marks.lines(f'(include "kafka-twin.env" .Values.{of}.extraEnv)')] = None


def _volumes(made: Manifest, of: str, marks: Marks) -> None:
    if of == "admission":
        for volume in made["spec"]["template"]["spec"]["volumes"]:
            if volume["name"] == "tls":
                volume["secret"]["secretName"] = marks.value(
                    'include "kafka-twin.admissionSecret" .'
                )
    for claim in made["spec"].get("volumeClaimTemplates", ()):
        claim["spec"]["resources"]["requests"]["storage"] = marks.value(
            f".Values.{of}.persistence.size"
        )
        storage = f'(include "kafka-twin.storageClass" .Values.{of}.persistence.storageClass)'
        claim["spec"][marks.lines(storage)] = None


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
    conf[marks.lines('(include "kafka-twin.yaml" .Values.query.sparkConf)')] = None
    for role in ("driver", "executor"):
        template = spec[f"{role}Spec"]["podTemplateSpec"]
        [container] = template["spec"]["containers"]
        _pod(template, "query", marks)
        if role == "driver":  # executors get no environment of their own
            _environment(container, "query", marks)


def _service(made: Manifest, marks: Marks) -> None:
    if made["metadata"]["labels"].get(_COMPONENT) != "exporter":
        return
    of = ".Values.exporter.service"
    made["metadata"][marks.lines(f'(include "kafka-twin.annotations" {of}.annotations)')] = None
    [port] = made["spec"]["ports"]
    port["port"] = marks.value(f"{of}.port")
    made["spec"]["type"] = marks.value(f"{of}.type")


def _network_policy(made: Manifest, marks: Marks) -> None:
    for ingress in made["spec"]["ingress"]:
        if ingress.get("from") == [{"namespaceSelector": {}}]:
            ingress["from"] = marks.block(".Values.networkPolicy.from")


def _certificate(made: Manifest, marks: Marks) -> None:
    service = f"{marks.value(_FULL_NAME)}-admission"
    made["spec"]["dnsNames"] = [f"{service}.{marks.value(_NAMESPACE)}.svc"]


def _binding(made: Manifest, marks: Marks) -> None:
    for subject in made["subjects"]:
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
    for key in ("endpoints", "podMetricsEndpoints"):
        for endpoint in made["spec"].get(key, ()):
            endpoint["interval"] = marks.value(".Values.monitoring.interval")


_OTHERS: Final = {
    "Service": _service,
    "NetworkPolicy": _network_policy,
    "Certificate": _certificate,
    "RoleBinding": _binding,
    "ClusterRoleBinding": _binding,
    "ValidatingWebhookConfiguration": _webhooks,
    "ServiceMonitor": _monitor,
    "PodMonitor": _monitor,
}
