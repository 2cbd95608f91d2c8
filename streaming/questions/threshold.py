"""Other thresholds of KIP-1303: the answer to ``threshold``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import add
from typing import Annotated, Any, Final, TypedDict

from streaming.bus.view import ClusterView
from streaming.questions.answer import Answer, ConflictError, NotThereError
from streaming.questions.parameters import duration_ms, size_bytes, text, yes_or_no
from streaming.questions.question import question
from streaming.runtime.quantities import size_text, span_text
from twin.arrays.plain import counted
from twin.declarations.table import UNKNOWN
from twin.questions import local_log
from twin.questions.local_log import Threshold
from twin.tables.enums import CLUSTER_WIDE

GRID: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)


class Thresholds(TypedDict):
    """Thresholds cluster-wide (``topic`` is null), or of a topic."""

    topic: str | None
    topics_with_own_thresholds: int
    thresholds: list[Threshold]


def _text(data: Mapping[str, Any]) -> Answer:
    """The answer of those data for a person."""
    own, topic = data["topics_with_own_thresholds"], data["topic"]
    keep = counted(own, "topic keeps thresholds of its own", "topics keep thresholds of their own")
    whose = "cluster-wide" + (f" ({keep})" if own else "")
    return Answer(
        data,
        [
            f"With these thresholds {f'for topic {topic}' if topic else whose}, once leaders are "
            "balanced under KIP-1303. Until their preferred leaders are warm, partitions are led "
            "from elsewhere.",
        ],
        ("span", "bytes", "cold replicas", "cold leaders", "next leaders cold", "leaders moved",
         "unreachable", "rack skew", "out of balance", "balanced in"),
        [
            (span_text(r["local_log_ms"]), size_text(r["local_log_bytes"]), r["cold_replicas"],
             r["cold_leaders"], r["next_leaders_cold"], r["moved_leaders"],
             r["unreachable_partitions"], r["rack_skew"], r["preferred_cold"], _balanced_in(r))
            for r in data["thresholds"]
        ],
    )  # fmt: skip


def _balanced_in(row: Mapping[str, Any]) -> str:
    """How long leaders stay out of balance, as far as that is known, and how many are unknown."""
    never, unknown = row["preferred_never_warm"], row["preferred_eta_unknown"]
    parts = [f"{never} never"] if never else []
    parts += [f"{unknown} unknown"] if unknown else []
    if row["preferred_cold"] > never + unknown or not parts:
        parts.insert(0, span_text(int(row["balanced_in_s"] * 1_000)))
    return ", ".join(parts)


@question(
    "with thresholds of KIP-1303: what is cold, who leads, and for how long out of balance",
    text=_text,
    needs_one_of=("ms", "bytes"),
    prompt="give a threshold",
    refusals={404: "there is no such topic", 409: "KIP-1303 is switched off"},
)
def threshold(
    view: ClusterView,
    *,
    ms: Annotated[int, duration_ms("span of local log", example="10m", positive=True)] = UNKNOWN,
    bytes_: Annotated[int, size_bytes("its size", example="100MiB", positive=True)] = UNKNOWN,
    grid: Annotated[
        bool, yes_or_no("a curve, from a tenth to four times of what is given")
    ] = False,
    topic: Annotated[str, text("for this topic alone")] = CLUSTER_WIDE,
) -> Thresholds:
    """Set thresholds of KIP-1303.

    Cluster-wide, or for a topic. Shows which replicas are cold then, how leaders are spread over
    racks, and how long they stay out of balance. Topics with thresholds of their own keep them.
    """
    states = view.states
    if any("kip1303" not in state.catalog.election_rules for state in states):
        raise ConflictError("proposals.kip1303 is off: only KIP-1303 elects leaders by a threshold")
    own = sum(map(local_log.topics_with_thresholds, states))
    if topic:
        states = [part for state in states if (part := local_log.of_topic(state, topic)).partitions]
        if not states:
            raise NotThereError(f"there is no topic {topic}")
    judged = []
    for share in GRID if grid else (1.0,):
        span, size = (max(int(v * share), 1) if v > 0 else UNKNOWN for v in (ms, bytes_))
        judged.append(reduce(add, (local_log.eligibility(s, span, size, topic) for s in states)))
    return {
        "topic": topic or None,
        "topics_with_own_thresholds": own,
        "thresholds": judged,
    }
