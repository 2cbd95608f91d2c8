"""Changes the pods of a manifest for the chart: what each of the chart's values decides."""

from __future__ import annotations

from typing import Any, Final

from deploy.chart.marks import Marks

Manifest = dict[str, Any]

COMPONENT: Final = "app.kubernetes.io/component"
NAME: Final = "app.kubernetes.io/name"
FULL_NAME: Final = 'include "kafka-twin.fullname" .'
_PROBES: Final = ("startupProbe", "livenessProbe", "readinessProbe")


def change(made: Manifest, of: str, marks: Marks) -> None:
    """A Deployment or a StatefulSet of one container."""
    if of in ("collector", "exporter"):  # of the others there is one
        made["spec"]["replicas"] = marks.value(f".Values.{of}.replicas")
    _volumes(made, of, marks)
    pod = made["spec"]["template"]
    [container] = pod["spec"]["containers"]
    template(pod, of, marks)
    _container(container, of, marks)


def template(pod: Manifest, of: str, marks: Marks) -> None:
    """The template of a pod: metadata, where it runs, with which rights, and its volumes."""
    metadata, spec = pod["metadata"], pod["spec"]
    own = {k: v for k, v in metadata["labels"].items() if k != NAME}
    metadata["labels"] = {
        marks.lines('(include "kafka-twin.selectorLabels" .)'): None,
        **own,
        marks.lines(f'(include "kafka-twin.yaml" .Values.{of}.podLabels)'): None,
    }
    metadata["annotations"] = {
        "checksum/config": marks.value('include "kafka-twin.checksum" .'),
        marks.lines(f'(include "kafka-twin.yaml" .Values.{of}.podAnnotations)'): None,
    }
    scheduling = marks.lines(f'(include "kafka-twin.scheduling" (dict "root" . "of" .Values.{of}))')
    if "serviceAccountName" in spec and "automountServiceAccountToken" in spec:
        # Of a driver and its executors Spark decides.
        spec["automountServiceAccountToken"] = marks.value(
            f".Values.{of}.automountServiceAccountToken"
        )
    spec["securityContext"] = _security("podSecurityContext", of, marks)
    spec["volumes"].append(_both("extraVolumes", of, marks))
    [container] = spec["containers"]
    container["securityContext"] = _security("containerSecurityContext", of, marks)
    container["volumeMounts"].append(_both("extraVolumeMounts", of, marks))
    pod["spec"] = {scheduling: None, **spec}


def environment(container: Manifest, of: str, marks: Marks) -> None:
    """Its variables."""
    for variable in container["env"]:
        if "//kafka-twin-exporter" in variable["value"]:
            port = marks.value(".Values.exporter.service.port")
            scheme = marks.value('include "kafka-twin.scheme" .')
            variable["value"] = f"{scheme}://{marks.value(FULL_NAME)}-exporter:{port}"
        if variable["name"] == "KAFKA_TWIN_QUERY_CHECKPOINT":
            variable["value"] = marks.value(".Values.query.checkpoint | quote")
    container["env"].append(_both("extraEnv", of, marks))
    container["envFrom"].append(_both("extraEnvFrom", of, marks))


def _container(container: Manifest, of: str, marks: Marks) -> None:
    key = '"sparkImage"' if "spark" in container["image"] else '"image"'
    if of == "exporter":  # the small image has no reader of Delta tables
        key = '(ternary "sparkImage" "image" .Values.archive.enabled)'
        for probe in _PROBES:
            scheme = marks.lines('(include "kafka-twin.probeScheme" .)')
            container[probe]["httpGet"][scheme] = None
    container["image"] = marks.value(f'include "kafka-twin.image" (list . {key})')
    container["imagePullPolicy"] = marks.value(f"(index .Values {key}).pullPolicy")
    container["resources"] = marks.block(f".Values.{of}.resources")
    environment(container, of, marks)


def _security(key: str, of: str, marks: Marks) -> str:
    """That context for all pods, and what this program's has beside it or in its place."""
    given = f'(dict "root" . "of" .Values.{of} "key" "{key}")'
    return marks.block(f'(include "kafka-twin.security" {given} | fromYaml)')


def _both(key: str, of: str, marks: Marks) -> str:
    """Items of a list for all pods, and of this program's."""
    return marks.lines(f'(include "kafka-twin.yaml" (concat .Values.{key} .Values.{of}.{key}))')


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
