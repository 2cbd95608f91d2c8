"""Values with which owners of clusters secure the chart, a few that meet on each cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.kubernetes.charting import ARCHIVED, CONFIG, EVERYTHING, merged

TOKEN: Final = {"name": "kafka-twin-secrets", "key": "KAFKA_TWIN_ACCESS_TOKEN"}
TLS: Final = """\
[access]
# a [comment] before it
certificate = "/etc/kafka-twin-exporter-tls/tls.crt"
key = "/etc/kafka-twin-exporter-tls/tls.key"
"""
ROLE: Final = {"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/kafka-twin"}
MOUNT: Final = {
    "name": "exporter-tls",
    "mountPath": "/etc/kafka-twin-exporter-tls",
    "readOnly": True,
}
OPERATOR: Final = {"mode": "sparkOperator", "checkpoint": "s3a://bucket/twin"}


def _many(values: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The values with others, whose paths have two underscores in place of each dot."""
    made = dict(values)
    for path, value in more.items():
        made = merged(made, path.replace("__", "."), value)
    return made


COMBINATIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "a token": _many(
        EVERYTHING,
        monitoring__exporter__authorization={"credentials": TOKEN},
        exporter__extraEnvFrom=[{"secretRef": {"name": "more"}}],
    ),
    "TLS, and a proxy before metrics": _many(
        EVERYTHING,
        config=ARCHIVED + TLS,
        extraVolumes=[
            {"name": "exporter-tls", "secret": {"secretName": "kafka-twin-exporter-tls"}}
        ],
        extraVolumeMounts=[MOUNT],
        admission__extraEnv=[
            {"name": "SSL_CERT_FILE", "value": "/etc/kafka-twin-exporter-tls/ca.crt"}
        ],
        monitoring__exporter__tlsConfig={
            "serverName": "kafka-twin-exporter",
            "ca": {"secret": {"name": "kafka-twin-exporter-tls", "key": "ca.crt"}},
        },
        monitoring__programs__scheme="https",
        monitoring__programs__tlsConfig={"insecureSkipVerify": True},
    ),
    "roles of the cloud": _many(
        EVERYTHING,
        collector__serviceAccount__annotations=ROLE,
        archive__serviceAccount__annotations=ROLE,
        query__serviceAccount={"create": False, "name": "of-the-platform"},
        exporter__serviceAccount={"create": False},
        admission__serviceAccount__name="judge",
        collector__podLabels={"azure.workload.identity/use": "true"},
        collector__extraVolumes=[
            {"name": "token", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token", "audience": "kafka"}}]}}
        ],
        collector__extraVolumeMounts=[{"name": "token", "mountPath": "/var/run/secrets/kafka"}],
        hostAliases=[{"ip": "fd00::7", "hostnames": ["kafka-0.example.org"]}],
        collector__hostAliases=[{"ip": "10.0.0.7", "hostnames": ["kafka-1.example.org"]}],
    ),
    "OpenShift, the operator": _many(EVERYTHING, openshift=True, query=OPERATOR),
    "IPv6 alone, nothing else open": _many(
        EVERYTHING,
        ipFamilyPolicy="SingleStack",
        ipFamilies=["IPv6"],
        networkPolicy__from=[{"ipBlock": {"cidr": "fd00:10::/64"}}],
        networkPolicy__egress__to=[{"ipBlock": {"cidr": "fd00:20::/64"}}],
        networkPolicy__egress__more=[{"ports": [{"protocol": "TCP", "port": 443}]}],
        query=OPERATOR,
    ),
    "both families, users of its own": _many(
        {"config": CONFIG},
        ipFamilyPolicy="PreferDualStack",
        ipFamilies=["IPv6", "IPv4"],
        podSecurityContext__runAsUser=2_000,
        query__podSecurityContext__fsGroup=3_000,
        collector__podSecurityContext__supplementalGroups=[4_000],
        query__containerSecurityContext__runAsUser=5_000,
    ),
}  # fmt: skip
"""By what they are about."""
