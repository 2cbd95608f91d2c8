"""Paths of the exporter, each declared once: for its route and for its description.

    @endpoint("/api/v1/groups", "groups of consumers, a page at a time", tool="groups")
    def groups(source: ViewSource, *, which: GroupFilter) -> GroupPage: ...

A positional parameter is one of

    ViewSource      the state that the answer is about
    ServedClusters  that of each cluster, where it is about all
    Request         the request itself

A keyword parameter is what is given in the path, the query or a header, as
``streaming.questions.arguments`` explains. The return type is the form of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import ModuleType
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from streaming.exporter.fleet.served_clusters import ServedClusters
from streaming.exporter.schemas import ref
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web.access import Role
from streaming.history.moment import AT, AT_NAME
from streaming.questions.arguments import signature_of
from streaming.questions.parameters import InputParameter, Schema, read_all
from twin.engine.catalog import Catalog

Values = Mapping[str, Any]
"""The given parameters of the path and of the query, by name."""

JSON: Final = "application/json"


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
    answer: Callable[[Any, Request, Values], Any]  # of a ViewSource, or of ServedClusters
    schema: Schema  # of a JSON body
    media_type: str = JSON
    form: Any = None  # the type of what it answers, if it has one
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

    def of(self, catalog: Catalog) -> Endpoint:
        """The endpoint with the parameters that it has for that catalog."""
        if self.parameters is None:
            return self
        return replace(self, parameters={n: p.of(catalog) for n, p in self.parameters.items()})

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


_READS: Final = (ViewSource, ServedClusters, Request)


def endpoint(path: str, summary: str, **more: Any) -> Callable[[Callable[..., Any]], Endpoint]:
    """Declare an endpoint; ``more`` are further fields.

    Raises:
        DeclarationError: a parameter is none of the kinds above.
    """

    def declare(function: Callable[..., Any]) -> Endpoint:
        signature = signature_of(function, _READS)

        def answer(source: Any, request: Request, values: Values) -> Any:
            there = {type(source): source, Request: request}
            reads = (there[kind] for kind in signature.reads)
            return function(*reads, **signature.arguments(values))

        in_path = {n: each for n, each in signature.given.items() if each.place == "path"}
        others = {n: each for n, each in signature.given.items() if n not in in_path}
        declared: dict[str, Any] = {"path_parameters": in_path, "parameters": others, **more}
        if "schema" not in declared:
            declared |= {"schema": ref(signature.returns.__name__), "form": signature.returns}
        return Endpoint(path=path, summary=summary, answer=answer, **declared)

    return declare


PLAIN_TEXT: Final = "text/plain"


def text_endpoint(path: str, summary: str, **more: Any) -> Callable[[Callable[..., Any]], Endpoint]:
    """Declare an endpoint of text that accepts any parameter."""
    of_text = {"schema": {"type": "string"}, "of_state": False, "media_type": PLAIN_TEXT,
               "refusal_media_type": PLAIN_TEXT, "parameters": None}  # fmt: skip
    return endpoint(path, summary, **{**of_text, **more})


def plain_answer(status: int, text: str) -> Response:
    """A text for probes, or the reason why there is none."""
    return Response(text, status, media_type=PLAIN_TEXT)


def endpoints_of(modules: Iterable[ModuleType], catalog: Catalog) -> list[Endpoint]:
    """The endpoints that modules declare, for that catalog."""
    return [
        each.of(catalog)
        for module in modules
        for each in vars(module).values()
        if isinstance(each, Endpoint)
    ]
