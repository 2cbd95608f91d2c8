"""Which broker a pod is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

BROKER: Final = "kafka-twin.io/broker"
"""Annotation: the id of the broker, whatever the pod's name."""

ALLOW: Final = "kafka-twin.io/allow-eviction"
"""Annotation: ``"true"`` allows the eviction, whatever the twin says. The pod that takes its place
comes from a template without it, so it applies once."""

_DEFAULT_GRACE_S: Final = 30


@dataclass(frozen=True, slots=True)
class Pod:
    """The fields of a pod that the webhook reads."""

    namespace: str
    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    is_ending: bool = False  # it was deleted, and its containers stop
    grace_s: int = _DEFAULT_GRACE_S  # how long they may take

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> Self:
        """The pod of an object of the API server."""
        meta = manifest.get("metadata") or {}
        grace = (manifest.get("spec") or {}).get("terminationGracePeriodSeconds")
        return cls(
            meta.get("namespace", ""), meta.get("name", ""), meta.get("uid", ""),
            meta.get("labels") or {}, meta.get("annotations") or {},
            meta.get("deletionTimestamp") is not None,
            _DEFAULT_GRACE_S if grace is None else int(grace),
        )  # fmt: skip

    @property
    def may_go(self) -> bool:
        """Its annotation allows the eviction, whatever the twin says."""
        return self.annotations.get(ALLOW) == "true"


def broker_of(pod: Pod, selector: Mapping[str, str], first_broker: int) -> int | None:
    """The id of the broker that runs in a pod; None if none does.

    By the annotation; by Strimzi's labels, where the number at the end of the name is the id; or,
    for a pod with the labels of ``selector``, by its number in its StatefulSet.

    Args:
        pod: the pod.
        selector: labels of broker pods; empty: there are none beside Strimzi's.
        first_broker: the id of the broker in the pod with the number 0.
    """
    given = pod.annotations.get(BROKER, "")
    if given.isdigit():
        return int(given)
    if pod.labels.get("strimzi.io/kind") == "Kafka":
        return _number(pod) if pod.labels.get("strimzi.io/broker-role") == "true" else None
    if selector and selector.items() <= pod.labels.items():
        number = _number(pod)
        return None if number is None else number + first_broker
    return None


def _number(pod: Pod) -> int | None:
    match = re.search(r"-(\d+)$", pod.name)
    return int(match[1]) if match else None
