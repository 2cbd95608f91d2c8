"""Another min.insync.replicas: partitions that would refuse acks=all, now and after a loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from streaming.questions.answer import Answer
from streaming.questions.parameters import matches, number, pattern_of_names
from streaming.questions.question import question
from twin.arrays.plain import counted
from twin.declarations.table import UNKNOWN, Bool
from twin.engine.state import ShardState
from twin.questions import whatif
from twin.questions.adds_up import AddsUp, same
from twin.rules.partitions.topic_configs import LeaderMinIsr, TopicConfigs
from twin.rules.replication.isr import IsrSizes
from twin.tables.state import Brokers, PartitionIndex, Partitions, Topics


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


def _text(data: Mapping[str, Any]) -> Answer:
    """The answer of those data for a person."""
    partitions, unknown, now = (data[name] for name in ("partitions", "not_described", "now"))
    line = (
        f"With min.insync.replicas={data['min_isr']}, {now} of {counted(partitions, 'partition')} "
        f"{'is' if now == 1 else 'are'} under min ISR now"
        + (f"; nothing is known of {unknown} more." if unknown else ".")
    )
    rows = sorted((int(id_), now + more, more) for id_, more in data["more_after_loss"].items())
    header = ("lost broker", "under min ISR then", "more than now")
    return Answer(data, [line if partitions or unknown else "No topic matches."], header, rows)


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
    the loss of each broker. As in Kafka, no partition needs more replicas than it has.
    """
    matching = matches(topic, state[Topics].topic.tolist())[state[PartitionIndex].topic_index]
    described = state[Partitions].described_at_ms != UNKNOWN
    part = state.take(np.flatnonzero(matching & described))
    configs = part[TopicConfigs]
    configured = np.full(part.partitions, min_isr, configs.min_insync_replicas.dtype)
    part = part.with_tables(replace(configs, min_insync_replicas=configured)).remade(LeaderMinIsr)
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
    )


def _under_after_loss(state: ShardState, now: Bool, broker: int) -> int:
    """The partitions under min ISR once that broker is lost; now they are those of ``now`` [P]."""
    loss, then = whatif.lose(state, [broker]), now.copy()
    then[loss.row] = loss.under_min_isr
    return int(then.sum())
