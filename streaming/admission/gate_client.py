"""Asks the exporter whether brokers may be restarted together."""

from __future__ import annotations

import math
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2
import msgspec

from streaming.questions.gate.restart import RestartVerdict, Verdict
from streaming.runtime.http_errors import why


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """The verdict, and why in a few lines."""

    verdict: Verdict
    why: str
    is_late: bool = False  # it is unknown since the twin has not looked yet, or no more


class Gate:
    """The exporter's gate. Without an answer the verdict is unknown."""

    def __init__(self, url: str, token: str, terms: Mapping[str, str]) -> None:
        """
        Args:
            url: of the exporter.
            token: of the exporter's ``[access]``, empty if it needs none.
            terms: parameters of the gate, such as ``allow_rf1``.
        """
        self._url, self._terms = url, dict(terms)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._verify = url.startswith("https:") and ssl.create_default_context()

    async def ask(
        self, broker: int, others: Sequence[int], since_s: float | None = None
    ) -> GateAnswer:
        """Whether the broker may be restarted while the others are away too.

        Args:
            broker: its id.
            others: their ids.
            since_s: a Unix time in seconds. The verdict is unknown until the twin has observed the
                whole cluster after it. None: by what the twin has observed last.
        """
        parameters: dict[str, Any] = {**self._terms, "with": list(others)}
        if since_s is not None:
            parameters["since"] = math.ceil(since_s)  # the API takes whole seconds
        try:
            async with httpx2.AsyncClient(
                verify=self._verify, trust_env=False, follow_redirects=False, timeout=None
            ) as client:  # the deadline of a review limits all of it
                answer = await client.get(
                    f"{self._url}/api/v1/brokers/{broker}/restart",
                    params=parameters,
                    headers=self._headers,
                )
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            return GateAnswer("unknown", f"the exporter {self._url} does not answer: {why(error)}")
        try:
            if answer.status_code != httpx2.codes.OK:
                refusal = answer.json()["error"]
                return GateAnswer("unknown", f"the exporter gives no verdict: {refusal}")
            verdict = msgspec.json.decode(answer.content, type=RestartVerdict)
        except (ValueError, KeyError, TypeError):
            return GateAnswer("unknown", f"{self._url} is not an exporter of kafka-twin")
        lines = "; ".join(map(str.strip, verdict.lines()))
        return GateAnswer(verdict.verdict, lines, is_late=verdict.stale is not None)
