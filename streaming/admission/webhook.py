"""The webhook: judges evictions and deletions of broker pods, one after the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import structlog
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from streaming.admission.gate_client import Gate, GateAnswer
from streaming.admission.going import GoingBrokers
from streaming.admission.kubernetes import Kubernetes, KubernetesError
from streaming.admission.own_metrics import REVIEW_SECONDS, REVIEWS
from streaming.admission.pods import ALLOW, Pod, broker_of
from streaming.admission.reviews import Request, ReviewError, answer_to, request_of
from streaming.runtime.config import AdmissionConfig
from streaming.runtime.program_metrics import ProgramMetrics

_MOST_BODY_BYTES: Final = 3 << 20
"""The API server's own limit of an object."""

_REPORT_AGAIN_S: Final = 60.0
"""kubectl drain tries again every 5 s: the same event is written once in this time."""

_LOOK_EVERY_S: Final = 0.5

log = structlog.get_logger("admission")


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a request is admitted, and what is said about it."""

    allowed: bool
    outcome: str = ""  # empty: the pod runs no broker, and is not counted
    text: str = ""
    pod: Pod | None = None
    is_early: bool = False  # the twin has not looked since the request


class Webhook:
    """Decides reviews. They are judged in turn, so that several drains do not miss each other."""

    def __init__(
        self, config: AdmissionConfig, kubernetes: Kubernetes, gate: Gate, metrics: ProgramMetrics,
        unix_time_s: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._unix_time_s = unix_time_s
        self._config, self._kubernetes, self._gate = config, kubernetes, gate
        self._metrics = metrics
        self._going = GoingBrokers()
        self._turn = asyncio.Lock()
        self._reported: dict[tuple[str, str], float] = {}

    async def decide(self, request: Request) -> Decision:
        """The decision about a request, within the deadline."""
        if not (request.is_eviction or request.is_deletion):
            return Decision(True)
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(self._config.deadline_ms / 1_000):
                decision = await self._judged(request)
        except TimeoutError:
            decision = self._unknown("there was no verdict within admission.deadline_ms", None)
        except KubernetesError as error:
            decision = self._unknown(str(error), None)
        if decision.outcome:
            self._metrics.add(REVIEWS, 1, decision.outcome)
            self._metrics.observe(REVIEW_SECONDS, time.monotonic() - began_s)
            log.info(
                "review", pod=request.name, namespace=request.namespace, outcome=decision.outcome,
                dry_run=request.is_dry_run, why=decision.text,
            )  # fmt: skip
        return decision

    async def _judged(self, request: Request) -> Decision:
        pod = await self._pod(request)
        if pod is None or pod.is_ending:
            return Decision(True)
        broker = broker_of(pod, self._config.labels, self._config.first_broker)
        if broker is None:
            return Decision(True)
        asked_s = self._unix_time_s()
        decision = await self._in_turn(request, pod, broker, None)
        if decision.outcome != "admitted":
            return decision
        # Another broker may have crashed since the twin looked last, so it has to look again.
        while (decision := await self._in_turn(request, pod, broker, asked_s)).is_early:
            await asyncio.sleep(_LOOK_EVERY_S)
        return decision

    async def _in_turn(
        self, request: Request, pod: Pod, broker: int, since_s: float | None
    ) -> Decision:
        """A decision while no other is made; without ``since_s`` one that is safe is not final."""
        async with self._turn:
            now_s = time.monotonic()
            others = self._going.others(broker, now_s)
            answer = await self._gate.ask(broker, others, since_s)
            decision = self._decision(answer, pod)
            is_final = decision.outcome != "admitted" if since_s is None else not decision.is_early
            if is_final and decision.allowed and not request.is_dry_run:
                self._going.add(broker, pod.grace_s, now_s)
        return decision

    async def _pod(self, request: Request) -> Pod | None:
        if request.old_object is not None and request.is_deletion:
            return Pod.of(request.old_object)
        return await self._kubernetes.pod(request.namespace, request.name)

    def _decision(self, answer: GateAnswer, pod: Pod) -> Decision:
        if answer.verdict == "safe":
            return Decision(True, "admitted", answer.why, pod)
        if pod.may_go:
            return Decision(True, "allowed", f"{ALLOW} lets it go: {answer.why}", pod)
        if answer.verdict == "unsafe":
            return Decision(False, "refused", answer.why, pod)
        return self._unknown(answer.why, pod, answer.is_late)

    def _unknown(self, why: str, pod: Pod | None, is_early: bool = False) -> Decision:
        is_open = self._config.when_unknown == "admit"
        outcome = f"unknown_{'admitted' if is_open else 'refused'}"
        return Decision(is_open, outcome, why, pod, is_early)

    async def report(self, decision: Decision) -> None:
        """Write an event about a pod that is refused, or admitted although that is not safe."""
        if decision.pod is None or decision.outcome in ("", "admitted"):
            return
        key, now_s = (decision.pod.uid, decision.outcome), time.monotonic()
        if now_s - self._reported.get(key, -_REPORT_AGAIN_S) < _REPORT_AGAIN_S:
            return
        self._reported = {k: at for k, at in self._reported.items() if now_s - at < _REPORT_AGAIN_S}
        self._reported[key] = now_s
        why = "BrokerMayNotGo" if not decision.allowed else "BrokerGoesUnjudged"
        try:
            async with asyncio.timeout(self._config.deadline_ms / 1_000):
                await self._kubernetes.report(decision.pod, "Warning", why, decision.text)
        except (KubernetesError, TimeoutError) as error:
            log.warning("no event was written", pod=decision.pod.name, error=str(error))


def application(webhook: Webhook) -> Starlette:
    """The application: ``/admit`` for the API server, ``/healthz`` for probes."""

    async def admit(request: HttpRequest) -> Response:
        body = await _body(request)
        try:
            asked = request_of(body)
        except ReviewError as error:
            return PlainTextResponse(f"{error}\n", 400)
        decision = await webhook.decide(asked)
        if not asked.is_dry_run:
            _in_background(webhook.report(decision))
        warnings = []
        if decision.allowed and decision.outcome not in ("", "admitted"):
            warnings = [f"kafka-twin: {decision.text}"[:250]]
        message = f"kafka-twin: {decision.text}"
        return JSONResponse(
            answer_to(asked.uid, allowed=decision.allowed, message=message, warnings=warnings)
        )

    def health(_: HttpRequest) -> Response:
        return PlainTextResponse("ok\n")

    return Starlette(routes=[Route("/admit", admit, methods=["POST"]), Route("/healthz", health)])


async def _body(request: HttpRequest) -> bytes:
    """The body, cut at what no review is longer than."""
    received = bytearray()
    async for chunk in request.stream():
        received += chunk
        if len(received) > _MOST_BODY_BYTES:
            return b""
    return bytes(received)


_running: Final[set[asyncio.Task[None]]] = set()


def _in_background(work: Awaitable[None]) -> None:
    """Do it after the answer, which it must not delay."""

    async def done() -> None:
        await work

    task = asyncio.get_running_loop().create_task(done())
    _running.add(task)  # the loop has weak references alone
    task.add_done_callback(_running.discard)
