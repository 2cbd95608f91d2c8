"""Questions: what would happen (``/api/v1/whatif``), and whether a broker may be restarted.

A question takes the processor for some milliseconds, so few are answered at a time, in threads of
their own; a scrape waits for none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.requests import Request

from streaming.bus.view import ClusterView
from streaming.exporter.answers import RefusedError
from streaming.exporter.endpoint import Endpoint, Runs, Values
from streaming.exporter.parameters import (
    MAX_ROWS,
    Parameter,
    duration_ms,
    limit,
    number,
    size_bytes,
    text,
    yes_or_no,
)
from streaming.exporter.routes.terms import SINCE, TERMS, since_ms, terms
from streaming.exporter.schemas import ref
from streaming.exporter.source import Source
from streaming.questions.answer import Answer
from streaming.questions.bootstrap import bootstrapped
from streaming.questions.loss import lost
from streaming.questions.restart import judge
from streaming.questions.retention import retained
from streaming.questions.threshold import GRID, thresholds
from twin.gate import Terms
from twin.table import UNKNOWN
from twin.tables.enums import CLUSTER_WIDE

_RATE_BYTES_PER_S: Final = 50 << 20


@dataclass(frozen=True, slots=True)
class _Question:
    """A question, its parameters, and the fields of its answer."""

    name: str
    summary: str
    answer: Callable[[ClusterView, Values], Answer]
    schema: str
    parameters: Mapping[str, Parameter]
    needs_one_of: tuple[str, ...] = ()
    refusals: Mapping[int, str] = field(default_factory=dict)


def endpoints(source: Source) -> list[Endpoint]:
    """The endpoints of this file."""
    return [*(_endpoint(source, each) for each in _QUESTIONS), _restart(source), _in_sync(source)]


def _endpoint(source: Source, question: _Question) -> Endpoint:
    def answer(_: Request, asked: Values) -> Any:
        view, now_ms = source.view, source.now_ms()
        stale = view.why_not_up(now_ms)
        if not view.shards or len(view.shards) < view.shards_expected:
            raise RefusedError(stale, 503)
        data = question.answer(view, asked).data
        return {**data, "observed_at_ms": view.observed_at_ms, "stale": stale or None}

    return Endpoint(
        path=f"/api/v1/whatif/{question.name}",
        summary=question.summary,
        answer=answer,
        schema=ref(question.schema),
        parameters=question.parameters,
        needs_one_of=question.needs_one_of,
        refusals={**question.refusals, 503: "the state is incomplete"},
        runs=Runs.IN_TURN,
    )


def _restart(source: Source) -> Endpoint:
    def answer(_: Request, asked: Values) -> Any:
        brokers = [asked["broker"], *asked.get("with", ())]
        verdict = judge(source.view, brokers, terms(asked), source.now_ms(), since_ms(asked))
        return verdict.data()

    return Endpoint(
        path="/api/v1/brokers/{broker:int}/restart",
        summary="whether the broker [may be restarted](gate.md) now",
        answer=answer,
        schema=ref("RestartVerdict"),
        path_parameters={"broker": number("its id", place="path", required=True)},
        parameters={
            "with": number(
                "another broker that is restarted together with it; may be repeated", repeated=True
            ),
            **TERMS,
        },
        refusals={404: "there is no such broker"},
        runs=Runs.IN_TURN,
    )


def _in_sync(source: Source) -> Endpoint:
    def answer(_: Request, asked: Values) -> Any:
        return judge(source.view, (), Terms(), source.now_ms(), since_ms(asked)).data()

    return Endpoint(
        path="/api/v1/brokers/in-sync",
        summary="whether every broker is back and in every ISR of its replicas",
        answer=answer,
        schema=ref("RestartVerdict"),
        parameters={"since": SINCE},
        runs=Runs.IN_TURN,
    )


# ---------------------------------------------------------------- what would happen


def _lose(view: ClusterView, asked: Values) -> Answer:
    brokers, racks = asked.get("broker", []), asked.get("rack", [])
    return lost(view.states, brokers, racks, asked.get("limit", MAX_ROWS), view.lose)


def _threshold(view: ClusterView, asked: Values) -> Answer:
    shares = GRID if asked.get("grid") else (1.0,)
    topic = asked.get("topic", CLUSTER_WIDE)
    ms, size = asked.get("ms", UNKNOWN), asked.get("bytes", UNKNOWN)
    return thresholds(view.states, ms, size, shares, topic)


def _bootstrap(view: ClusterView, asked: Values) -> Answer:
    rate = asked.get("rate", _RATE_BYTES_PER_S)
    return bootstrapped(view.states, asked["broker"], rate, asked.get("new", False))


def _retention(view: ClusterView, asked: Values) -> Answer:
    return retained(view.states, asked.get("local_ms", UNKNOWN), asked.get("local_bytes", UNKNOWN))


_QUESTIONS: Final = (
    _Question(
        "lose",
        "if these brokers and racks are lost: who leads each affected partition, the worst first",
        _lose,
        "Lost",
        {
            "broker": number("a broker to lose; may be repeated", repeated=True),
            "rack": text("a rack to lose; may be repeated", repeated=True),
            "limit": limit("partitions", MAX_ROWS),
        },
        needs_one_of=("broker", "rack"),
        refusals={404: "there is no such broker or rack"},
    ),
    _Question(
        "threshold",
        "with thresholds of KIP-1303: what is cold, who leads, and for how long out of balance",
        _threshold,
        "Thresholds",
        {
            "ms": duration_ms("span of local log, e.g. `10m`", positive=True),
            "bytes": size_bytes("its size, e.g. `100MiB`", positive=True),
            "grid": yes_or_no("`true`: a curve, from a tenth to four times of what is given"),
            "topic": text("for this topic alone"),
        },
        needs_one_of=("ms", "bytes"),
        refusals={404: "there is no such topic", 409: "KIP-1303 is switched off"},
    ),
    _Question(
        "bootstrap",
        "if an empty broker joins: what it copies with KIP-1023 and without",
        _bootstrap,
        "Bootstrapped",
        {
            "broker": number("the broker whose disk is empty", required=True),
            "new": yes_or_no("`true`: the broker does not exist yet"),
            "rate": size_bytes("bytes it copies a second; `50MiB` by default", positive=True),
        },
        refusals={404: "there is no such broker", 409: "a new broker is there already"},
    ),
    _Question(
        "retention",
        "with another local retention: the local log and cold replicas of tiered topics",
        _retention,
        "Retained",
        {
            "local_ms": duration_ms("`local.retention.ms`, e.g. `1h`"),
            "local_bytes": size_bytes("`local.retention.bytes`, e.g. `10GiB`"),
        },
        needs_one_of=("local_ms", "local_bytes"),
    ),
)
