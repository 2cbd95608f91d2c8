"""Endpoints as routes: who may ask, which answers wait for others, and what refuses."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streaming.exporter.answers import RefusedError, compressed, error_answer, json_answer
from streaming.exporter.endpoint import Endpoint, Runs, Values
from streaming.exporter.turns import Turns
from streaming.exporter.web.access import may
from streaming.history.moment import AT_NAME
from streaming.questions.answer import ConflictError, NotThereError, WhatIfError

NO_OPERATOR: Final = (
    "plans are for operators: those with access.operator_token, and users in access.operators"
)


Asks = Callable[[Endpoint, Request, Values], Any]
"""Asks an endpoint."""


def routes(
    endpoints: Iterable[Endpoint],
    ask: Asks,
    turns: Turns,
    cluster: str,
    *,
    of_several: bool = False,
) -> list[Route]:  # fmt: skip
    """The routes of the endpoints. Questions share one limit, those about the past another.

    Where the cluster is one ``of_several``, commands in answers name it.
    """
    named = cluster if of_several else ""
    return [Route(each.path, _responder(each, ask, turns, cluster, named)) for each in endpoints]


def _responder(
    endpoint: Endpoint, ask: Asks, turns: Turns, cluster: str, named: str
) -> Callable[[Request], Awaitable[Response]]:
    def answered(request: Request) -> Response:
        if not may(request.scope, endpoint.role):
            return error_answer(NO_OPERATOR, 403)
        try:
            values = endpoint.read(request)
        except ValueError as error:
            return error_answer(str(error), 400)
        try:
            answer = ask(endpoint, request, values)
        except (WhatIfError, RefusedError) as error:
            return error_answer(str(error), _status(error))
        if isinstance(answer, Response):
            return answer
        return compressed(json_answer(answer, cluster=named), request)

    def turn_of(request: Request) -> AbstractAsyncContextManager[Any]:
        is_asked = endpoint.of_state and AT_NAME in request.query_params
        if is_asked or endpoint.runs is Runs.OF_PAST:
            return turns.of_past.turn(cluster)
        in_turn = endpoint.runs is Runs.IN_TURN
        return turns.of_questions.turn(cluster) if in_turn else contextlib.nullcontext()

    async def respond(request: Request) -> Response:
        if endpoint.runs is Runs.IN_LOOP:
            return answered(request)
        async with turn_of(request):
            return await run_in_threadpool(answered, request)

    return respond


def _status(error: Exception) -> int:
    match error:
        case RefusedError():
            return error.status
        case NotThereError():
            return 404
        case ConflictError():
            return 409
        case _:
            return 400
