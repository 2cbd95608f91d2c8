"""Paths of the exporter, each declared once: for its route and for its description."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streaming.exporter.answers import RefusedError, compressed, error_answer, json_answer
from streaming.questions.answer import ConflictError, NotThereError, WhatIfError
from streaming.questions.parameters import InputParameter, Schema, read_all

Values = Mapping[str, Any]
"""The given parameters of the path and of the query, by name."""

JSON: Final = "application/json"

QUESTIONS_AT_ONCE: Final = 2
"""The maximum of questions that are answered at the same time; others wait."""


class Runs(Enum):
    """Where an answer is made: in the event loop, or in a thread."""

    IN_LOOP = "in the event loop: it is there at once"
    IN_THREAD = "in a thread: a large answer holds up neither health nor others"
    IN_TURN = "in a thread, few at a time: it takes the processor for some milliseconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A path and its answer: plain data for JSON, or a response.

    ``parameters`` is None where any are accepted and ignored. Of the parameters in ``needs_one_of``
    at least one must be given. ``refusals`` are the possible statuses, apart from 200 and from 400
    for wrong parameters. ``tool`` is the name of the tool that it is for agents, empty if none;
    ``text`` makes the sentences that an agent reads beside the data, which else are the text.
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
    text: Callable[[Any], Sequence[str]] | None = None

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


def routes(endpoints: Iterable[Endpoint]) -> list[Route]:
    """The routes of the endpoints; their questions share one limit."""
    turn = asyncio.Semaphore(QUESTIONS_AT_ONCE)
    return [Route(each.path, _responder(each, turn)) for each in endpoints]


def _responder(
    endpoint: Endpoint, turn: asyncio.Semaphore
) -> Callable[[Request], Awaitable[Response]]:
    def answered(request: Request) -> Response:
        try:
            values = endpoint.read(request)
        except ValueError as error:
            return error_answer(str(error), 400)
        try:
            answer = endpoint.answer(request, values)
        except (WhatIfError, RefusedError) as error:
            return error_answer(str(error), _status(error))
        return answer if isinstance(answer, Response) else compressed(json_answer(answer), request)

    async def respond(request: Request) -> Response:
        if endpoint.runs is Runs.IN_LOOP:
            return answered(request)
        async with turn if endpoint.runs is Runs.IN_TURN else contextlib.nullcontext():
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
