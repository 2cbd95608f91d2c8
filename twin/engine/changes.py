"""Changes between two states of a shard, as sentences for operators.

The rules declare which tables they compare (``@event``); created and deleted partitions and risks
that open and close are compared here. A first observation is not a change: a twin that starts
reports nothing. A change has an id made of its content, so a repeat can be recognised.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from twin.arrays.keys import bit_numbers
from twin.declarations.declare import Occurrence
from twin.declarations.table import UNKNOWN
from twin.engine.former_offsets import groups_of_former
from twin.engine.risks import OpenRisks
from twin.engine.rows import common_rows
from twin.engine.shard_reports import CLUSTER
from twin.engine.shard_state import ShardState
from twin.kafka.kafka_topics import STOPPING_RISKS, WHAT_STOPS
from twin.tables.state import PartitionIndex, Partitions, Topics

BROKER_EVENTS_SHARD: Final = 0
"""Every shard observes every broker; one reports them."""

MOST_GROUPS: Final = 5
"""Groups that a text names."""

BUILT_IN_KINDS: Final = (
    "partition_created", "partition_deleted", "risk_opened", "risk_closed",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that happened. ``partition`` and ``broker`` are UNKNOWN where it names none."""

    kind: str
    at_ms: int
    cluster: str
    text: str
    topic: str = ""
    partition: int = UNKNOWN
    broker: int = UNKNOWN
    detail: str = ""  # distinguishes changes of one kind, e.g. which risk
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @property
    def id(self) -> str:
        """The same change has the same id, however often it is reported."""
        place = f"{self.topic}-{self.partition}" if self.topic else f"broker-{self.broker}"
        parts = (self.cluster, place, self.kind, self.detail, str(self.broker), str(self.at_ms))
        return "/".join(part for part in parts if part)


def changes(before: ShardState, after: ShardState) -> list[Change]:
    """Everything that happened to the shard between two states, partitions first, then brokers."""
    if before.observed_at_ms == UNKNOWN:
        return []
    old_row = common_rows(before, after)
    all_changes = list(_created_and_deleted(before, after, old_row))
    earlier = before.take(old_row)
    for source in after.catalog.events:
        if source.per == "broker" and after.shard not in (BROKER_EVENTS_SHARD, CLUSTER):
            continue
        arguments = after.arguments(source.reads, earlier)
        for occurrence in source.occurrences(**arguments):
            all_changes.append(_change(after, occurrence.kind or source.kinds[0], occurrence))
    all_changes += _risks(earlier, after)
    # Events of partitions come first, then those of brokers; within a kind the order stays.
    return sorted(all_changes, key=lambda change: not change.topic)


def _created_and_deleted(
    before: ShardState, after: ShardState, old_row: np.ndarray
) -> Iterator[Change]:
    """A topic that was deleted and made anew is another topic: it is deleted first.

    Offsets that groups committed to the old one stay, and mean nothing in the new one.
    """
    new = np.flatnonzero(old_row == UNKNOWN)
    if not len(new) and len(old_row) == before.partitions:
        return
    gone = np.setdiff1d(np.arange(before.partitions), old_row)
    deleted = [
        _change(before, "partition_deleted", Occurrence("{p} was deleted", row))
        for row in gone.tolist()
    ]
    for each in deleted:
        yield replace(each, at_ms=after.observed_at_ms)
    anew = {(each.topic, each.partition): list[str]() for each in deleted}
    anew |= groups_of_former(after)
    for row in new.tolist():
        made = _change(after, "partition_created", Occurrence("{p} was created", row))
        groups = anew.get((made.topic, made.partition))
        yield made if groups is None else replace(made, text=_anew(made.text, groups))


def _anew(text: str, groups: list[str]) -> str:
    """The text of a partition of a topic that was deleted and made anew."""
    text = f"{text}: another topic of that name"
    if not groups:
        return text
    named = ", ".join(groups[:MOST_GROUPS]) + ("" if len(groups) <= MOST_GROUPS else ", ...")
    return f"{text}; offsets that {named} committed are of the old one"


def _risks(earlier: ShardState, after: ShardState) -> Iterator[Change]:
    if not after.partitions:
        return  # as in the cluster's own shard, whose risks have their own events
    was, now = earlier[OpenRisks].bits, after[OpenRisks].bits
    both = earlier[Partitions].described_at_ms != UNKNOWN
    both &= after[Partitions].described_at_ms != UNKNOWN
    changed = np.flatnonzero(both & (was != now))
    for row, bits, differ in zip(
        changed.tolist(), now[changed].tolist(), (was ^ now)[changed].tolist(), strict=True
    ):
        for number in bit_numbers(differ):
            risk = after.catalog.risks[number]
            if bits >> number & 1:
                text = f"{{p}}: {risk.sentence}{_what_stops(after, row, risk.name)}"
                yield _change(after, "risk_opened", Occurrence(text, row, detail=risk.name))
            else:
                text = f"{{p}}: the risk {risk.name} has closed"
                yield _change(after, "risk_closed", Occurrence(text, row, detail=risk.name))


def _what_stops(state: ShardState, row: int, risk: str) -> str:
    """What stops by that risk, if the topic is one of Kafka's own; follows a colon."""
    if risk not in STOPPING_RISKS:
        return ""
    topic = str(state[Topics].topic[state[PartitionIndex].topic_index[row]])
    stops = WHAT_STOPS.get(topic, "")
    return stops and f": {stops}"


def _change(state: ShardState, kind: str, what: Occurrence) -> Change:
    topic, partition, text = "", UNKNOWN, what.text
    if what.row != UNKNOWN:
        index = state[PartitionIndex]
        topic = str(state[Topics].topic[index.topic_index[what.row]])
        partition = int(index.partition[what.row])
        text = text.replace("{p}", f"{topic}-{partition}")
    return Change(
        kind, state.observed_at_ms, state.cluster, text, topic, partition, what.broker,
        what.detail, what.before, what.after,
    )  # fmt: skip
