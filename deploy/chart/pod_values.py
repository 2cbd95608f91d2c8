"""Values about pods: of all programs, and of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from deploy.chart.value import FLAG, MAP, OBJECTS, TEXT, TEXTS, Value

_FOR_ALL: Final = (
    ("extraEnv", OBJECTS, "more environment variables: settings, credentials"),
    ("extraEnvFrom", OBJECTS, "Secrets and ConfigMaps with environment variables"),
    ("extraVolumes", OBJECTS, "more volumes: certificates, keytabs, projected tokens"),
    ("extraVolumeMounts", OBJECTS, "where they are mounted"),
    ("hostAliases", OBJECTS, "names of hosts that DNS does not know"),
)
"""Values for all pods; those of a program come after them."""

_HARDENED: Final = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
_NO_ROOT: Final = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
_OF_VOLUME: Final = {"fsGroup": 10_001, "fsGroupChangePolicy": "OnRootMismatch"}


_ACCOUNT_ANNOTATIONS: Final = (
    "its annotations: `eks.amazonaws.com/role-arn`, `azure.workload.identity/client-id`, "
    "`iam.gke.io/gcp-service-account`"
)


def of_all() -> Iterator[Value]:
    """Values for the pods of all programs."""
    for name, schema, text in _FOR_ALL:
        yield Value(name, [], schema, f"{text}, for all pods")
    yield Value("podSecurityContext", _NO_ROOT, MAP,
                "security context of all pods; the images name user 10001 themselves")  # fmt: skip
    yield Value("containerSecurityContext", _HARDENED, MAP, "security context of all containers")


def of_program(
    of: str, resources: Mapping[str, Any], *, volume: bool = False, asks_api: bool = False
) -> Iterator[Value]:
    """Values for the pods of one program.

    Args:
        of: the program.
        resources: its requests and limits.
        volume: it writes to a volume, which has to be its group's.
        asks_api: it asks the API server.
    """
    yield Value(f"{of}.resources", resources, MAP, "requests and limits")
    yield Value(f"{of}.nodeSelector", {}, TEXTS, "labels of the nodes on which it may run")
    yield Value(f"{of}.tolerations", [], OBJECTS, "taints of nodes that it tolerates")
    yield Value(f"{of}.affinity", {}, MAP, "affinity to nodes and to other pods")
    yield Value(f"{of}.topologySpreadConstraints", [], OBJECTS, "how pods spread over zones")
    yield Value(f"{of}.priorityClassName", "", TEXT, "priority class")
    yield Value(f"{of}.podAnnotations", {}, TEXTS, "annotations of its pods")
    yield Value(f"{of}.podLabels", {}, TEXTS, "labels of its pods")
    yield Value(f"{of}.serviceAccount.create", True, FLAG, "a service account of its own")
    yield Value(
        f"{of}.serviceAccount.name", "", TEXT, "its name; of one that is there, if none is created"
    )
    yield Value(f"{of}.serviceAccount.annotations", {}, TEXTS, _ACCOUNT_ANNOTATIONS)
    yield Value(f"{of}.automountServiceAccountToken", asks_api, FLAG,
                "its pods get a token for the API server")  # fmt: skip
    yield Value(f"{of}.podSecurityContext", dict(_OF_VOLUME) if volume else {}, MAP,
                "over the security context of all pods")  # fmt: skip
    yield Value(
        f"{of}.containerSecurityContext", {}, MAP, "over the security context of all containers"
    )
    for name, schema, text in _FOR_ALL:
        yield Value(f"{of}.{name}", [], schema, text)
