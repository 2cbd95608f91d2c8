"""The API server's questions about a request, and their answers (``admission.k8s.io/v1``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from streaming.runtime.errors import UserError

VERSION: Final = "admission.k8s.io/v1"

TRY_AGAIN: Final = 429
"""Status of a refusal: kubectl drain waits and evicts again, as it does for a PodDisruptionBudget.
"""


class ReviewError(UserError):
    """The body of a request is not an AdmissionReview; one line says why."""


class Resource(msgspec.Struct, frozen=True):
    """The API group and the resource that a request is about."""

    group: str = ""
    resource: str = ""


class Request(msgspec.Struct, frozen=True, rename="camel"):
    """A request that is to be admitted or refused."""

    uid: str
    operation: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    sub_resource: str = ""
    dry_run: bool | None = None
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None

    @property
    def is_dry_run(self) -> bool:
        """Nothing will happen. ``kubectl drain --dry-run=server`` says so in the eviction itself,
        of which the API server does not tell in the review."""
        options = (self.object or {}).get("deleteOptions") if self.is_eviction else None
        evicts = options.get("dryRun") if isinstance(options, dict) else None
        return bool(self.dry_run or evicts)

    @property
    def is_eviction(self) -> bool:
        """Somebody evicts a pod."""
        return self._is("CREATE", "eviction")

    @property
    def is_deletion(self) -> bool:
        """Somebody deletes a pod."""
        return self._is("DELETE", "")

    def _is(self, operation: str, sub_resource: str) -> bool:
        of_pods = (self.resource.group, self.resource.resource) == ("", "pods")
        return of_pods and (self.operation, self.sub_resource) == (operation, sub_resource)


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: Request


def request_of(body: bytes) -> Request:
    """The request in a review.

    Raises:
        ReviewError: the body is not an AdmissionReview, or has another version.
    """
    try:
        review = msgspec.json.decode(body, type=_Review)
    except msgspec.MsgspecError as error:
        raise ReviewError(f"no AdmissionReview: {error}") from None
    if (review.api_version, review.kind) != (VERSION, "AdmissionReview"):
        raise ReviewError(f"{review.kind} {review.api_version}: only AdmissionReview {VERSION}")
    return review.request


def answer_to(
    uid: str, *, allowed: bool, message: str = "", warnings: Sequence[str] = ()
) -> dict[str, Any]:
    """The review that answers the request.

    Args:
        uid: of the request.
        allowed: whether it is admitted.
        message: why the request is refused, for the client.
        warnings: lines that the client shows although the request is admitted.
    """
    response: dict[str, Any] = {"uid": uid, "allowed": allowed}
    if not allowed:
        response["status"] = {"code": TRY_AGAIN, "reason": "TooManyRequests", "message": message}
    if warnings:
        response["warnings"] = list(warnings)
    return {"apiVersion": VERSION, "kind": "AdmissionReview", "response": response}
