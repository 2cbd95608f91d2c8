"""Plans, as ``kafka-twin plan`` makes them, for display. Nothing here changes the cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request

from streaming.exporter.agents.texts import plan_text
from streaming.exporter.answers import RefusedError
from streaming.exporter.endpoint import Endpoint, Runs, Values
from streaming.exporter.routes.terms import TERMS, since_ms, terms
from streaming.exporter.schemas import ref
from streaming.exporter.source import ViewSource
from streaming.exporter.web.access import Role
from streaming.plans.answer import PlanData, plan_data
from streaming.plans.demote import plan_demote
from streaming.plans.order import plan_order
from streaming.plans.place import DEFAULT_STEPS, MAX_STEPS, plan_place
from streaming.plans.plan import Plan, PlanError
from streaming.questions.parameters import DEFAULT_ROWS, limit, number, yes_or_no
from streaming.questions.roll import plan_roll, roll_lines

_FILES: Final = (
    "The text has the files for kafka-reassign-partitions.sh and kafka-leader-election.sh. Nothing "
    "is applied."
)


def endpoints(source: ViewSource) -> list[Endpoint]:
    """The endpoints of this file."""
    with_files = [_order(source), _demote(source), _place(source)]
    return [*(replace(each, role=Role.OPERATOR) for each in with_files), _roll(source)]


def _order(source: ViewSource) -> Endpoint:
    def planned(values: Values) -> Plan:
        preferred = values.get("preferred", False)
        return plan_order(source.view, source.now_ms(), preferred=preferred)

    return Endpoint(
        path="/api/v1/plans/order",
        tool="plan_order",
        help=_FILES,
        text=plan_text,
        summary="the plan that puts [warm replicas before cold ones](plans.md)",
        answer=lambda _, values: _data(planned, values),
        schema=ref("PlanData"),
        parameters={
            "preferred": yes_or_no("move slot 0, the preferred leader, as well"),
            "limit": limit("changes", DEFAULT_ROWS),
        },
        refusals={503: "the state is incomplete or stale: nothing is planned"},
        runs=Runs.IN_TURN,
    )


def _demote(source: ViewSource) -> Endpoint:
    def planned(values: Values) -> Plan:
        return plan_demote(source.view, source.now_ms(), values["broker"])

    return Endpoint(
        path="/api/v1/plans/demote",
        tool="plan_demote",
        help=_FILES,
        text=plan_text,
        summary="the plan that gives [the leaderships of a broker](plans.md) to others",
        answer=lambda _, values: _data(planned, values),
        schema=ref("PlanData"),
        parameters={
            "broker": number("the broker that is to lead nothing", required=True),
            "limit": limit("changes", DEFAULT_ROWS),
        },
        refusals={
            404: "there is no such broker",
            503: "the state is incomplete or stale: nothing is planned",
        },
        runs=Runs.IN_TURN,
    )


def _place(source: ViewSource) -> Endpoint:
    def planned(values: Values) -> Plan:
        return plan_place(source.view, source.now_ms(), most=values["most"])

    return Endpoint(
        path="/api/v1/plans/place",
        tool="plan_place",
        help=_FILES,
        text=plan_text,
        summary="the plan that [moves replicas](plans.md) so that the loss of a rack, or of two "
        "brokers, harms fewer partitions",
        answer=lambda _, values: _data(planned, values),
        schema=ref("PlanData"),
        parameters={
            "most": number(
                "steps at most: two replicas that change places, or one that moves",
                least=1,
                most=MAX_STEPS,
                default=DEFAULT_STEPS,
            ),
            "limit": limit("changes", DEFAULT_ROWS),
        },
        refusals={503: "the state is incomplete or stale: nothing is planned"},
        runs=Runs.IN_TURN,
    )


def _data(planned: Callable[[Values], Plan], values: Values) -> PlanData:
    try:
        return plan_data(planned(values), values["limit"])
    except PlanError as error:
        raise RefusedError(str(error), 503) from None


def _roll(source: ViewSource) -> Endpoint:
    def answer(_: Request, values: Values) -> Any:
        return plan_roll(
            source.view, values.get("broker", ()), terms(values), source.now_ms(),
            since_ms=since_ms(values), by_rack=values.get("racks", False), most=values.get("most"),
        ).data()  # fmt: skip

    return Endpoint(
        path="/api/v1/plans/roll",
        tool="plan_roll",
        text=roll_lines,
        summary="in which order brokers [may be restarted](gate.md), and which may not",
        answer=answer,
        schema=ref("RollPlan"),
        parameters={
            "broker": number("a broker to restart, all by default", repeated=True),
            "racks": yes_or_no("a batch may be several brokers of one rack"),
            "most": number("brokers of a batch at most, with `racks`", least=1),
            **TERMS,
        },
        refusals={404: "there is no such broker"},
        runs=Runs.IN_TURN,
    )
