"""``kafka-twin plan``: changes to the cluster, printed with their reasons; applied on request."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from streaming.bus import snapshots
from streaming.cli.whatif import print_answer
from streaming.plans.order import plan_order
from streaming.plans.plan import Plan
from streaming.questions.answer import Answer
from streaming.runtime.config import load


@click.group()
def plan() -> None:
    """Plan changes to the cluster.

    A plan is made from the newest snapshots and printed. Nothing is changed without --apply.
    """


@plan.command()
@click.option("--preferred", is_flag=True, help="Move slot 0, the preferred leader, as well.")
@click.option("--json", "as_json", is_flag=True, help="Plain data, all rows.")
@click.pass_obj
def order(config: Any, preferred: bool, as_json: bool) -> None:
    """Put warm replicas before cold ones.

    Kafka elects the first replica in sync by the order of the assignment. The new order has the
    same replicas, so no data moves; without --preferred no leader moves either.
    """
    view = snapshots.newest(load(config))
    show(plan_order(view, time.time_ns() // 1_000_000, preferred=preferred), as_json)


def show(planned: Plan, as_json: bool) -> None:
    """Print a plan for a person, or as one line of JSON."""
    data = {
        "plan": planned.name,
        "cluster": planned.cluster,
        "observed_at_ms": planned.observed_at_ms,
        "changes": [
            {
                "topic": change.topic,
                "partition": change.partition,
                "leader": change.leader,
                "replicas": change.replicas,
                "planned": change.planned,
            }
            for change in planned.changes
        ],
        "unchanged": planned.undone,
    }
    print_answer(Answer(data, planned.lines, planned.header, planned.rows), as_json, sys.stdout)
