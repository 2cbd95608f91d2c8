"""``/api/v1/whatif``: the questions of ``kafka-twin whatif``, asked of the exporter's view.

A question takes the processor for some milliseconds, so few are answered at a time, in threads of
their own; a scrape waits for none of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streaming.bus.view import ClusterView
from streaming.exporter.answers import error_answer, json_answer
from streaming.exporter.parameters import MAX_ROWS, number, yes_or_no
from streaming.questions.answer import Answer, WhatIfError
from streaming.questions.bootstrap import bootstrapped
from streaming.questions.loss import lost
from streaming.questions.quantities import UNITS_BYTES, UNITS_MS, parse
from streaming.questions.retention import retained
from streaming.questions.threshold import GRID, thresholds
from twin.state import ShardState
from twin.table import UNKNOWN
from twin.tables.enums import CLUSTER_WIDE

AT_ONCE: Final = 2
"""Questions that are answered at the same time; others wait."""

_RATE: Final = "50MiB"
_States = list[ShardState]


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the names of its parameters."""

    name: str
    answer: Callable[[_States, QueryParams], Answer]
    once: tuple[str, ...]
    repeated: tuple[str, ...] = ()

    def check(self, asked: QueryParams) -> None:
        """Refuse parameters that it does not have, or not twice.

        Raises:
            ValueError: one line with the parameter and the reason.
        """
        for name in asked:
            if name not in (*self.once, *self.repeated):
                raise ValueError(f"{name}: there is no such parameter")
            if name in self.once and len(asked.getlist(name)) > 1:
                raise ValueError(f"{name}: it is given twice")


def routes(current: Callable[[], ClusterView], now_ms: Callable[[], int]) -> list[Route]:
    """A route for each question."""
    turn = asyncio.Semaphore(AT_ONCE)

    def endpoint(question: Question) -> Callable[..., Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            async with turn:
                return await run_in_threadpool(
                    _answered, question, current(), request.query_params, now_ms()
                )

        return answer

    return [Route(f"/api/v1/whatif/{each.name}", endpoint(each)) for each in QUESTIONS]


def _answered(question: Question, view: ClusterView, asked: QueryParams, now_ms: int) -> Response:
    if len(view.shards) < view.shards_expected:
        return error_answer(view.why_not_up(now_ms), 503)
    try:
        question.check(asked)
        answer = question.answer([shard.state for shard in view.shards], asked)
    except (ValueError, WhatIfError) as error:
        return error_answer(str(error), 400)
    about = {"observed_at_ms": view.observed_at_ms, "stale": view.why_not_up(now_ms) or None}
    return json_answer({**answer.data, **about})


# ---------------------------------------------------------------- questions


def _lose(states: _States, asked: QueryParams) -> Answer:
    brokers = [number("broker", text) for text in asked.getlist("broker")]
    racks = asked.getlist("rack")
    if not brokers and not racks:
        raise ValueError("say what is lost: broker=3, or rack=az-a; both may be repeated")
    return lost(states, brokers, racks, number("limit", asked.get("limit", str(MAX_ROWS))))


def _threshold(states: _States, asked: QueryParams) -> Answer:
    span_ms, size = _duration_ms(asked, "ms"), _size_bytes(asked, "bytes")
    if span_ms <= 0 and size <= 0:
        raise ValueError("say a threshold: ms=10m, bytes=100MiB, or both")
    shares = GRID if yes_or_no("grid", asked.get("grid", "false")) else (1.0,)
    return thresholds(states, span_ms, size, shares, asked.get("topic", CLUSTER_WIDE))


def _bootstrap(states: _States, asked: QueryParams) -> Answer:
    if "broker" not in asked:
        raise ValueError("say which broker is empty: broker=3")
    rate = _size_bytes(asked, "rate", _RATE)
    if rate <= 0:
        raise ValueError("rate: it must be positive")
    is_new = yes_or_no("new", asked.get("new", "false"))
    return bootstrapped(states, number("broker", asked["broker"]), rate, is_new)


def _retention(states: _States, asked: QueryParams) -> Answer:
    span_ms, size = _duration_ms(asked, "local_ms"), _size_bytes(asked, "local_bytes")
    if span_ms == UNKNOWN and size == UNKNOWN:
        raise ValueError("say a retention: local_ms=1h, local_bytes=10GiB, or both")
    return retained(states, span_ms, size)


QUESTIONS: Final = (
    Question("lose", _lose, once=("limit",), repeated=("broker", "rack")),
    Question("threshold", _threshold, once=("ms", "bytes", "grid", "topic")),
    Question("bootstrap", _bootstrap, once=("broker", "new", "rate")),
    Question("retention", _retention, once=("local_ms", "local_bytes")),
)


def _duration_ms(asked: QueryParams, name: str) -> int:
    return _quantity(asked, name, UNITS_MS, "duration; write 10m, 90s, 2h or milliseconds", "")


def _size_bytes(asked: QueryParams, name: str, default: str = "") -> int:
    return _quantity(asked, name, UNITS_BYTES, "size; write 100MiB, 2GiB or bytes", default)


def _quantity(asked: QueryParams, name: str, units: dict[str, int], what: str, default: str) -> int:
    text: Any = asked.get(name, default)
    if not text and name not in asked:
        return UNKNOWN
    amount = parse(text, units)
    if amount is None:
        raise ValueError(f"{name}: {text!r} is no {what}")
    return amount
