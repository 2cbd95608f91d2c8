"""Paths of the exporter, each declared once: for its route and for its description."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streaming.exporter.answers import RefusedError, compressed, error_answer, json_answer
from streaming.exporter.web.access import Role, may
from streaming.history.moments import AT, AT_NAME, Moment
from streaming.questions.answer import ConflictError, NotThereError, WhatIfError
from streaming.questions.parameters import InputParameter, Schema, read_all

Values = Mapping[str, Any]
"""The given parameters of the path and of the query, by name."""

JSON: Final = "application/json"

QUESTIONS_AT_ONCE: Final = 2
"""The maximum of questions that are answered at the same time; others wait."""

PAST_AT_ONCE: Final = 1
"""Of questions about the past, whose state may have to be computed first."""

NO_OPERATOR: Final = (
    "plans are for operators: those with access.operator_token, and users in access.operators"
)

NO_PAST: Final = (
    "this exporter knows the present only; kafka-twin capsule open FILE shows the past of a capsule"
)


class Runs(Enum):
    """Where an answer is made: in the event loop, or in a thread."""

    IN_LOOP = "in the event loop: it is there at once"
    IN_THREAD = "in a thread: a large answer holds up neither health nor others"
    IN_TURN = "in a thread, few at a time: it takes the processor for some milliseconds"
    OF_PAST = "in a thread, one at a time, as all that is about moments of the past"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A path and its answer: plain data for JSON, or a response.

    ``parameters`` is None where any are accepted and ignored. Of the parameters in ``needs_one_of``
    at least one must be given. ``refusals`` are the possible statuses, apart from 200 and from 400
    for wrong parameters. ``tool`` is the name of the tool that it is for agents, empty if none;
    ``text`` makes the sentences that an agent reads beside the data, which else are the text. What
    is ``of_state`` follows from the cluster's state: it has the parameter ``at`` as well, and can
    be asked about moments of the past. ``of_topic`` is the parameter of the path that names the
    topic, if no partition of another topic matters to the answer. ``role`` is the least that
    whoever asks must have.
    """

    path: str  # as Starlette writes it
    summary: str
    answer: Callable[[Request, Values], Any]
    schema: Schema  # of a JSON body
    media_type: str = JSON
    path_parameters: Mapping[str, InputParameter] = field(default_factory=dict)
    parameters: Mapping[str, InputParameter] | None = field(default_factory=dict)
    needs_one_of: tuple[str, ...] = ()
    refusals: Mapping[int, str] = field(default_factory=dict)
    refusal_media_type: str = JSON
    runs: Runs = Runs.IN_THREAD
    tool: str = ""
    help: str = ""  # more about a tool than the summary says
    not_for_tool: tuple[str, ...] = ()  # parameters that a tool does not have: its answer is JSON
    text: Callable[[Any], Sequence[str]] | None = None
    of_state: bool = True
    of_topic: str = ""
    role: Role = Role.VIEWER

    def __post_init__(self) -> None:
        if self.of_state:
            object.__setattr__(self, "parameters", {**(self.parameters or {}), AT_NAME: AT})

    def read(self, request: Request) -> dict[str, Any]:
        """The values of a request's parameters.

        Raises:
            ValueError: one line with the parameter and the reason.
        """
        in_path = ((name, str(value)) for name, value in request.path_params.items())
        values = read_all(in_path, self.path_parameters)
        if self.parameters is None:
            return values
        in_query = {n: p for n, p in self.parameters.items() if p.place == "query"}
        in_header = {n: p for n, p in self.parameters.items() if p.place == "header"}
        headers = [(n, request.headers[n]) for n in in_header if n in request.headers]
        values |= read_all(request.query_params.multi_items(), in_query)
        values |= read_all(headers, in_header)
        if self.needs_one_of and not any(name in values for name in self.needs_one_of):
            raise ValueError(f"at least one is needed of: {', '.join(self.needs_one_of)}")
        return values


Ask = Callable[[Endpoint, Request, Moment | None, Values], Any]
"""Answers a question that may be about a moment of the past."""


def now_only(endpoint: Endpoint, request: Request, at: Moment | None, values: Values) -> Any:
    """The answer about the present, for an endpoint without a past."""
    if at is not None:
        raise RefusedError(f"{AT_NAME}: {NO_PAST}", 404)
    return endpoint.answer(request, values)


def routes(endpoints: Iterable[Endpoint], ask: Ask = now_only) -> list[Route]:
    """The routes of the endpoints. Questions share one limit, those about the past another."""
    turn, past_turn = asyncio.Semaphore(QUESTIONS_AT_ONCE), asyncio.Semaphore(PAST_AT_ONCE)
    return [Route(each.path, _responder(each, ask, turn, past_turn)) for each in endpoints]


def _responder(
    endpoint: Endpoint, ask: Ask, turn: asyncio.Semaphore, past_turn: asyncio.Semaphore
) -> Callable[[Request], Awaitable[Response]]:
    def answered(request: Request) -> Response:
        if not may(request.scope, endpoint.role):
            return error_answer(NO_OPERATOR, 403)
        try:
            values = endpoint.read(request)
        except ValueError as error:
            return error_answer(str(error), 400)
        try:
            if endpoint.of_state:
                answer = ask(endpoint, request, values.pop(AT_NAME, None), values)
            else:
                answer = endpoint.answer(request, values)
        except (WhatIfError, RefusedError) as error:
            return error_answer(str(error), _status(error))
        return answer if isinstance(answer, Response) else compressed(json_answer(answer), request)

    def turn_of(request: Request) -> AbstractAsyncContextManager[Any]:
        is_asked = endpoint.of_state and AT_NAME in request.query_params
        if is_asked or endpoint.runs is Runs.OF_PAST:
            return past_turn
        return turn if endpoint.runs is Runs.IN_TURN else contextlib.nullcontext()

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
