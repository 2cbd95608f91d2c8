"""The requests to the Kubernetes API server: it reads a pod, and writes an event about it."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx2

from streaming.admission.pods import Pod
from streaming.runtime.errors import UserError
from streaming.runtime.http_errors import reason, why

IN_CLUSTER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes mounts the token of a pod's service account, and the authority to trust."""

_MOST_CHARACTERS: Final = 1_000
"""Of the message of an event; the API server takes 1024."""


class KubernetesError(UserError):
    """The API server does not answer, or refuses; one line says why."""


def address(environment: Mapping[str, str] = os.environ) -> str:
    """The URL of the API server, inside of a cluster; empty elsewhere."""
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    if not host:
        return ""
    bracketed = f"[{host}]" if ":" in host else host
    return f"https://{bracketed}:{environment.get('KUBERNETES_SERVICE_PORT', '443')}"


class Kubernetes:
    """A client of the API server, with the rights of a service account."""

    def __init__(self, url: str, folder: Path = IN_CLUSTER) -> None:
        """``folder`` has ``token``, which is read again each time since it changes, and ``ca.crt``.

        Raises:
            KubernetesError: there is no API server, or its authority cannot be read.
        """
        if not url:
            raise KubernetesError(
                "admission.kubernetes: is not set, and this is not a pod: name the URL of the API "
                "server"
            )
        self._url, self._folder = url, folder
        try:
            self._trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        except OSError as error:
            raise KubernetesError(f"{folder / 'ca.crt'}: cannot be read: {reason(error)}") from None

    async def pod(self, namespace: str, name: str) -> Pod | None:
        """The pod of that name; None if there is none.

        Raises:
            KubernetesError: it cannot be read.
        """
        answer = await self._send("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
        if answer.status_code == httpx2.codes.NOT_FOUND:
            return None
        return Pod.of(_ok(answer))

    async def report(self, pod: Pod, kind: str, named: str, text: str) -> None:
        """Write an event about a pod, which ``kubectl describe pod`` shows.

        Args:
            pod: the pod.
            kind: ``Normal`` or ``Warning``.
            named: the reason, in one word.
            text: a sentence.

        Raises:
            KubernetesError: it cannot be written.
        """
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        event = {
            "apiVersion": "v1", "kind": "Event", "type": kind, "reason": named,
            "message": text[:_MOST_CHARACTERS],
            "metadata": {"generateName": f"{pod.name}.", "namespace": pod.namespace},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": pod.name,
                               "namespace": pod.namespace, "uid": pod.uid},
            "source": {"component": "kafka-twin"}, "reportingComponent": "kafka-twin",
            "firstTimestamp": now, "lastTimestamp": now, "count": 1,
        }  # fmt: skip
        _ok(await self._send("POST", f"/api/v1/namespaces/{pod.namespace}/events", event))

    async def _send(self, method: str, path: str, body: Any = None) -> httpx2.Response:
        try:
            token = (self._folder / "token").read_text().strip()
            async with httpx2.AsyncClient(
                verify=self._trust, trust_env=False, follow_redirects=False, timeout=None
            ) as client:  # the deadline of a review limits all of it
                return await client.request(
                    method,
                    f"{self._url}{path}",
                    json=body,
                    headers={"Authorization": f"Bearer {token}"},
                )
        except OSError as error:
            raise KubernetesError(f"{self._folder / 'token'}: {reason(error)}") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise KubernetesError(f"{self._url}: does not answer: {why(error)}") from None


def _ok(answer: httpx2.Response) -> dict[str, Any]:
    try:
        said: dict[str, Any] = answer.json()
    except ValueError:
        said = {}
    if answer.is_success:
        return said
    refusal = said.get("message") or f"HTTP status {answer.status_code}"
    raise KubernetesError(f"Kubernetes refuses: {refusal}")
