"""Another local retention: the answer to ``retention``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Annotated, Any, Final, TypedDict

from streaming.bus.view import ClusterView
from streaming.questions.answer import Answer, harm_lines
from streaming.questions.parameters import duration_ms, size_bytes
from streaming.questions.question import question
from streaming.runtime.quantities import size_text, span_text
from twin.arrays.plain import counted
from twin.declarations.table import UNKNOWN
from twin.questions import local_log
from twin.questions.local_log import Footprint
from twin.questions.whatif_groups import HurtByChange, hurt_by_change, together

NO_LIMIT: Final = -1
"""A span without a limit, as Kafka writes it."""


class RetentionEffect(TypedDict):
    """The local log of tiered topics now, and with another retention."""

    now: Footprint
    then: Footprint
    groups: list[HurtByChange]


def _text(data: Mapping[str, Any]) -> Answer:
    """The answer of those data for a person."""
    now, then = data["now"], data["then"]
    return Answer(
        data,
        [
            f"{counted(now['replicas'], 'replica')} of tiered topics; sizes as if each log were "
            "evenly dense.",
            *harm_lines(data["groups"]),
        ],
        ("", "now", "then"),
        [("cold replicas", now["cold"], then["cold"]),
         ("... that stay cold", now["cold_for_good"], then["cold_for_good"]),
         ("local log", size_text(now["bytes"]), size_text(then["bytes"])),
         ("span kept, busiest", *(_reach_text(each["shortest_span_ms"]) for each in (now, then))),
         ("span kept, calmest", *(_reach_text(each["longest_span_ms"]) for each in (now, then)))],
    )  # fmt: skip


def _told(footprint: Footprint) -> Footprint:
    """The same, as JSON has numbers: null is unknown, and -1 has no limit."""
    spans = (footprint.shortest_span_ms, footprint.longest_span_ms)
    shortest, longest = map(_span_ms, spans)
    return replace(footprint, shortest_span_ms=shortest, longest_span_ms=longest)


def _span_ms(span_ms: float | None) -> float | None:
    if span_ms is None or math.isfinite(span_ms):
        return span_ms
    return None if math.isnan(span_ms) else NO_LIMIT


def _reach_text(span_ms: float | None) -> str:
    if span_ms is None:
        return "unknown"
    return "no limit" if span_ms == NO_LIMIT else span_text(int(span_ms))


@question(
    "with another local retention: the local log and cold replicas of tiered topics",
    text=_text,
    needs_one_of=("local_ms", "local_bytes"),
    prompt="give a retention",
)
def retention(
    view: ClusterView,
    *,
    local_ms: Annotated[int, duration_ms("`local.retention.ms`", example="1h")] = UNKNOWN,
    local_bytes: Annotated[int, size_bytes("`local.retention.bytes`", example="10GiB")] = UNKNOWN,
) -> RetentionEffect:
    """Change local retention of tiered topics.

    Shows which replicas are cold then, and how far local logs reach back. Logs above the new limit
    are treated as truncated at once; raising the limit shows no effect until logs grow.
    """
    states = view.states
    changed = [local_log.with_local_retention(state, local_ms, local_bytes) for state in states]
    now, then = (reduce(add, map(local_log.local_footprint, each)) for each in (states, changed))
    hurt = together(map(hurt_by_change, states, changed))
    return {"now": _told(now), "then": _told(then), "groups": hurt}
