"""Plans, as ``kafka-twin plan`` makes them, for display. Nothing here changes the cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from streaming.exporter.agents.texts import plan_text
from streaming.exporter.answers import RefusedError
from streaming.exporter.endpoint import Endpoint, Runs, endpoint
from streaming.exporter.routes.terms import GivenTerms, in_ms
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web.access import Role
from streaming.plans.demote import plan_demote
from streaming.plans.order import plan_order
from streaming.plans.place import DEFAULT_STEPS, MAX_STEPS, plan_place
from streaming.plans.plan import Plan, PlanError
from streaming.plans.plan_data import PlanData, plan_data
from streaming.questions.gate.roll import RollPlan, plan_roll, roll_lines
from streaming.questions.parameters import DEFAULT_ROWS, limit, number, yes_or_no

_Limit = Annotated[int, limit("changes")]


def _plan(
    name: str, summary: str, refusals: dict[int, str] | None = None
) -> Callable[[Callable[..., Any]], Endpoint]:
    """Declare the endpoint of a plan that has files."""
    return endpoint(
        f"/api/v1/plans/{name}",
        summary,
        tool=f"plan_{name}",
        help="The text has the files for kafka-reassign-partitions.sh and "
        "kafka-leader-election.sh. Nothing is applied.",
        text=plan_text,
        refusals={**(refusals or {}), 503: "the state is incomplete or stale: nothing is planned"},
        runs=Runs.IN_TURN,
        role=Role.OPERATOR,
    )


def _data(planned: Callable[[], Plan], most: int) -> PlanData:
    try:
        return plan_data(planned(), most)
    except PlanError as error:
        raise RefusedError(str(error), 503) from None


@_plan("order", "the plan that puts [warm replicas before cold ones](plans.md)")
def order(
    source: ViewSource,
    *,
    preferred: Annotated[bool, yes_or_no("move slot 0, the preferred leader, as well")] = False,
    limit: _Limit = DEFAULT_ROWS,
) -> PlanData:
    """Warm replicas before cold ones."""
    return _data(lambda: plan_order(source.view, source.now_ms(), preferred=preferred), limit)


@_plan(
    "demote",
    "the plan that gives [the leaderships of a broker](plans.md) to others",
    {404: "there is no such broker"},
)
def demote(
    source: ViewSource,
    *,
    broker: Annotated[int, number("the broker that is to lead nothing")],
    limit: _Limit = DEFAULT_ROWS,
) -> PlanData:
    """The leaderships of a broker to others."""
    return _data(lambda: plan_demote(source.view, source.now_ms(), broker), limit)


@_plan(
    "place",
    "the plan that [moves replicas](plans.md) so that the loss of a rack, or of two brokers, harms "
    "fewer partitions",
)
def place(
    source: ViewSource,
    *,
    most: Annotated[
        int,
        number(
            "steps at most: two replicas that change places, or one that moves",
            least=1,
            most=MAX_STEPS,
        ),
    ] = DEFAULT_STEPS,
    limit: _Limit = DEFAULT_ROWS,
) -> PlanData:
    """Replicas so that a loss harms fewer partitions."""
    return _data(lambda: plan_place(source.view, source.now_ms(), most=most), limit)


@endpoint(
    "/api/v1/plans/roll",
    "in which order brokers [may be restarted](gate.md), and which may not",
    tool="plan_roll",
    text=roll_lines,
    refusals={404: "there is no such broker"},
    runs=Runs.IN_TURN,
)
def roll(
    source: ViewSource,
    *,
    broker: Annotated[
        Sequence[int], number("a broker to restart, all by default", repeated=True)
    ] = (),
    racks: Annotated[bool, yes_or_no("a batch may be several brokers of one rack")] = False,
    most: Annotated[int | None, number("brokers of a batch at most, with `racks`", least=1)] = None,
    given: GivenTerms,
) -> RollPlan:
    """An order of restarts."""
    return plan_roll(
        source.view, broker, given.terms, source.now_ms(), since_ms=in_ms(given.since),
        by_rack=racks, most=most,
    )  # fmt: skip
