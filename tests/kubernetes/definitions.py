"""Definitions of the custom resources that the chart uses.

Those of the Prometheus operator are its own, from its Go module. cert-manager, Strimzi, the Grafana
and the Spark operator publish theirs where no registry of packages has them: here they take any
field.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import yaml

from tests.kubernetes.tools import PROMETHEUS_OPERATOR, module_folder

_OF_PROMETHEUS: Final = ("servicemonitors", "podmonitors", "prometheusrules")
_OPEN: Final = (
    ("cert-manager.io", "v1", "Issuer"),
    ("cert-manager.io", "v1", "Certificate"),
    ("grafana.integreatly.org", "v1beta1", "GrafanaDashboard"),
    ("spark.apache.org", "v1", "SparkApplication"),
    ("kafka.strimzi.io", "v1", "Kafka"),
    ("kafka.strimzi.io", "v1", "KafkaNodePool"),
    ("kafka.strimzi.io", "v1", "KafkaUser"),
)


def definitions() -> Iterator[dict[str, Any]]:
    """The CustomResourceDefinitions."""
    module = module_folder(
        "github.com/prometheus-operator/prometheus-operator", f"v{PROMETHEUS_OPERATOR}"
    )
    for name in _OF_PROMETHEUS:
        file = module / "example/prometheus-operator-crd" / f"monitoring.coreos.com_{name}.yaml"
        yield yaml.load(file.read_text(), yaml.CSafeLoader)
    for group, version, kind in _OPEN:
        yield _open(group, version, kind)


def _open(group: str, version: str, kind: str) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {"name": version, "served": True, "storage": True,
                 "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }  # fmt: skip
