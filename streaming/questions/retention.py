"""Another local retention: the answer to ``retention``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import reduce
from operator import add
from typing import Any

from streaming.questions.answer import Answer
from streaming.questions.groups import changed_data, harm_lines
from streaming.questions.quantities import reach_text, size_text
from twin import whatif as questions
from twin.state import ShardState
from twin.whatif_groups import hurt_by_change, together


def retained(states: Sequence[ShardState], local_ms: int, local_bytes: int) -> Answer:
    """The answer to ``retention``."""
    changed = [questions.with_local_retention(state, local_ms, local_bytes) for state in states]
    now, then = (reduce(add, map(questions.local_footprint, each)) for each in (states, changed))
    hurt = together(map(hurt_by_change, states, changed))
    return Answer(
        {
            "now": _finite(asdict(now)),
            "then": _finite(asdict(then)),
            "groups": [changed_data(each) for each in hurt],
        },
        [
            f"{now.replicas} replicas of tiered topics; sizes as if each log were evenly dense.",
            *harm_lines(hurt),
        ],
        ("", "now", "then"),
        [("cold replicas", now.cold, then.cold),
         ("... that stay cold", now.cold_for_good, then.cold_for_good),
         ("local log", size_text(now.bytes), size_text(then.bytes)),
         ("span kept, busiest", *(reach_text(each.shortest_span_ms) for each in (now, then))),
         ("span kept, calmest", *(reach_text(each.longest_span_ms) for each in (now, then)))],
    )  # fmt: skip


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """The values for JSON: null for no limit and for unknown."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
