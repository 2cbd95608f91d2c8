"""Questions: what would happen (``/api/v1/whatif``), and whether a broker may be restarted.

A question uses the processor for some milliseconds, so few are answered at a time, in threads. A
scrape does not wait for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from starlette.requests import Request

from streaming.exporter.agents.texts import answer_lines
from streaming.exporter.answers import RefusedError
from streaming.exporter.endpoint import Endpoint, Runs, Values, endpoint
from streaming.exporter.routes.terms import SINCE, GivenTerms, in_ms
from streaming.exporter.schemas import ref
from streaming.exporter.view_source import ViewSource
from streaming.questions import QUESTIONS
from streaming.questions.gate.restart import RestartVerdict, judge, verdict_lines
from streaming.questions.parameters import number
from streaming.questions.question import Question
from twin.declarations.table import UNKNOWN
from twin.questions.gate import Terms


def asked(question: Question) -> Endpoint:
    """The endpoint of a question."""

    def answer(source: ViewSource, _: Request, values: Values) -> Any:
        view = source.view
        stale = view.why_not_up(source.now_ms())
        if not view.shards or len(view.shards) < view.shards_expected:
            raise RefusedError(stale, 503)
        data = question.data(view, values, source.own_topics)
        return {**data, "observed_at_ms": view.observed_at_ms, "stale": stale or None}

    return Endpoint(
        path=f"/api/v1/whatif/{question.name}",
        tool=_tool(question.name),
        help=_help(question),
        text=lambda data: answer_lines(question.text(data)),
        summary=question.summary,
        answer=answer,
        schema=ref(question.form.__name__),
        parameters=question.parameters,
        needs_one_of=tuple(question.needs_one_of),
        refusals={**question.refusals, 503: "the state is incomplete"},
        runs=Runs.IN_TURN,
    )


def _tool(question: str) -> str:
    return f"what_if_{question.replace('-', '_')}"


def _help(question: Question) -> str:
    """The help of its command; a flag that is a question of its own is a tool of its own."""
    text = question.help
    for each in QUESTIONS.values():
        if each.option_of == question.name:
            flag = each.name.removeprefix(f"{question.name}-")
            text = text.replace(f"With --{flag} it", f"The tool {_tool(each.name)}")
    return text


CONSOLE_HEADER: Final = "x-kafka-twin-console"
"""A header of the console's requests. It asks the gate whenever somebody opens the panel of a
broker, so its verdicts are not recorded."""


@endpoint(
    "/api/v1/brokers/{broker:int}/restart",
    "whether the broker [may be restarted](gate.md) now",
    tool="may_restart",
    text=verdict_lines,
    refusals={404: "there is no such broker"},
    runs=Runs.IN_TURN,
)
def restart(
    source: ViewSource,
    request: Request,
    *,
    broker: Annotated[int, number("its id", place="path")],
    with_: Annotated[
        Sequence[int],
        number("another broker that is restarted together with it", repeated=True),
    ] = (),
    given: GivenTerms,
) -> RestartVerdict:
    """The verdict on a restart."""
    verdict = judge(source.view, [broker, *with_], given.terms, source.now_ms(), in_ms(given.since))
    if source.asked is not None and CONSOLE_HEADER not in request.headers:
        source.asked(verdict.data())
    return verdict


@endpoint(
    "/api/v1/brokers/in-sync",
    "whether every broker is back and in every ISR of its replicas",
    tool="in_sync",
    text=verdict_lines,
    runs=Runs.IN_TURN,
)
def in_sync(source: ViewSource, *, since: Annotated[int, SINCE] = UNKNOWN) -> RestartVerdict:
    """The verdict where nothing is restarted."""
    return judge(source.view, (), Terms(), source.now_ms(), in_ms(since))
