"""Another min.insync.replicas: partitions that would refuse acks=all, now and after a loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypedDict

import numpy as np
from msgspec import Meta

from streaming.questions.answer import Answer, listed, some
from streaming.questions.parameters import matches, number, pattern_of_names
from streaming.questions.question import question
from twin.arrays.plain import counted
from twin.declarations.table import UNKNOWN, Bool
from twin.engine.shard_state import ShardState
from twin.questions import whatif
from twin.questions.adds_up import AddsUp, same
from twin.questions.min_isr import ClearedElrs, cleared_elrs, with_min_isr
from twin.rules.partitions.leaders import Roles
from twin.rules.partitions.topic_configs import LeaderMinIsr
from twin.rules.replication.isr import IsrSizes
from twin.tables.state import Assignment, Brokers, PartitionIndex, Partitions, Topics

MAX_NAMED: Final = 100
"""Partitions listed of those whose ELR is cleared."""


class ClearedElr(TypedDict):
    """A partition that loses its eligible leader replicas, the brokers in ``elr``.

    ``has_successor``: it has a clean successor without them.
    """

    topic: str
    partition: int
    elr: list[int]
    has_successor: bool


def _worst_first(each: ClearedElr) -> tuple[bool, str, int]:
    return each["has_successor"], each["topic"], each["partition"]


def _worst_of(one: list[ClearedElr], other: list[ClearedElr]) -> list[ClearedElr]:
    return sorted([*one, *other], key=_worst_first)[:MAX_NAMED]


@dataclass(frozen=True, slots=True)
class PartitionsUnderMinIsr(AddsUp):
    """Partitions under another min.insync.replicas. Those that no listing described are unknown."""

    min_isr: Annotated[int, same, Meta(description="the number that was given")]
    partitions: Annotated[int, Meta(description="described partitions of the topics")]
    not_described: Annotated[int, Meta(description="partitions that no listing described yet")]
    now: Annotated[int, Meta(description="partitions under it now")]
    more_after_loss: Annotated[
        dict[int, int], Meta(description="partitions that the loss of a broker adds, by its id")
    ]
    elr_cleared: Annotated[
        int, Meta(description="partitions whose ELR Kafka clears with the change (KIP-966)")
    ]
    elr_without_successor: Annotated[
        int,
        Meta(
            description="of these, partitions that have no clean successor then, or no leader and "
            "nobody left who could be elected cleanly"
        ),
    ]
    elr_partitions: Annotated[
        list[ClearedElr], _worst_of, Meta(description="the worst hundred of these")
    ]


def _text(data: Mapping[str, Any]) -> Answer:
    """The answer of those data for a person."""
    partitions, unknown, now = (data[name] for name in ("partitions", "not_described", "now"))
    line = (
        f"With min.insync.replicas={data['min_isr']}, {now} of {counted(partitions, 'partition')} "
        f"{'is' if now == 1 else 'are'} under min ISR now"
        + (f"; nothing is known of {unknown} more." if unknown else ".")
    )
    lines = [line if partitions or unknown else "No topic matches.", *_elr_lines(data)]
    rows = sorted((int(id_), now + more, more) for id_, more in data["more_after_loss"].items())
    header = ("lost broker", "under min ISR then", "more than now")
    return Answer(data, lines, header, rows)


def _elr_lines(data: Mapping[str, Any]) -> list[str]:
    """A sentence about the ELRs that the change clears; it names the partitions worst off."""
    cleared, worse = data["elr_cleared"], data["elr_without_successor"]
    if not cleared:
        return []
    line = (
        f"The change clears the ELR of {counted(cleared, 'partition')} (KIP-966: so does each "
        f"change of it, up or down); {counted(worse, 'has', 'have')} no clean successor then"
    )
    if not worse:
        return [line + "."]
    names = [
        f"{each['topic']}-{each['partition']} (ELR {listed(each['elr'])})"
        for each in data["elr_partitions"]
        if not each["has_successor"]
    ]
    return [f"{line}: {some(names, worse)}. Bring these brokers back into the ISR first."]


@question("with another min.insync.replicas: partitions under it, and after a loss", text=_text)
def min_isr(
    state: ShardState,
    *,
    min_isr: Annotated[int, number("`min.insync.replicas`", example="2", least=1)],
    topic: Annotated[
        str, pattern_of_names("topics, a regular expression of whole names", example="orders.*")
    ] = ".*",
) -> PartitionsUnderMinIsr:
    """Change min.insync.replicas of topics.

    Shows how many partitions are under min ISR then, so that acks=all is refused: now, and after
    the loss of each broker; and which partitions lose their ELR by the change, as each change of it
    clears the ELR. As in Kafka, no partition needs more replicas than it has.
    """
    matching = matches(topic, state[Topics].topic.tolist())[state[PartitionIndex].topic_index]
    described = state[Partitions].described_at_ms != UNKNOWN
    part = state.take(np.flatnonzero(matching & described))
    before, part = part, with_min_isr(part, min_isr)
    elrs = cleared_elrs(before, part)
    now = part[IsrSizes].size < part[LeaderMinIsr].min_isr
    return PartitionsUnderMinIsr(
        min_isr=min_isr,
        partitions=part.partitions,
        not_described=int((matching & ~described).sum()),
        now=int(now.sum()),
        more_after_loss={
            broker: _under_after_loss(part, now, broker) - int(now.sum())
            for broker in part[Brokers].broker.tolist()
        },
        elr_cleared=int(elrs.is_cleared.sum()),
        elr_without_successor=int(elrs.has_no_successor.sum()),
        elr_partitions=_cleared(before, elrs),
    )


def _cleared(state: ShardState, elrs: ClearedElrs) -> list[ClearedElr]:
    """The worst MAX_NAMED of the partitions whose ELR is cleared; ``state`` is before that."""
    roles, broker = state[Roles], state[Assignment].broker
    topics, numbers = state.topic_names(), state[PartitionIndex].partition
    row = np.flatnonzero(elrs.is_cleared)
    row = row[np.argsort(~elrs.has_no_successor[row], kind="stable")][:MAX_NAMED]
    cleared: list[ClearedElr] = [
        {
            "topic": str(topics[i]),
            "partition": int(numbers[i]),
            "elr": broker[i][roles.in_elr[i] & roles.is_assigned[i]].tolist(),
            "has_successor": not elrs.has_no_successor[i],
        }
        for i in row.tolist()
    ]
    return sorted(cleared, key=_worst_first)


def _under_after_loss(state: ShardState, now: Bool, broker: int) -> int:
    """The partitions under min ISR once that broker is lost; now they are those of ``now`` [P]."""
    loss, then = whatif.lose(state, [broker]), now.copy()
    then[loss.row] = loss.under_min_isr
    return int(then.sum())
