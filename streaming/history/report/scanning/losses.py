"""Records that were lost in the span, and groups that were hurt: each counted once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from streaming.bus.view import ClusterView
from streaming.history.report.happenings import GROUP_HURT, Happening, Place
from streaming.history.report.model import RecordsLostInSpan, SufferingGroup
from streaming.history.report.scanning.measures import places, suffering
from twin.declarations.table import NO_BROKER, UNKNOWN, Array
from twin.engine.shard_state import ShardState
from twin.rules.election.leader_changes import LeaderChanges
from twin.rules.election.records_lost import EVIDENCE_WITHIN_MS, LossCause, RecordsLost
from twin.rules.groups.reads import ReadsFrom
from twin.tables.state import Groups, PartitionIndex, Topics

MOST_GROUPS: Final = 100
"""Groups that are listed one by one."""

_BITS: Final = 21
"""Of a place of a group, a topic and a partition in one number."""

_Election = tuple[str, int, int]  # topic, partition, epoch or time


@dataclass(slots=True)
class LostRecords:
    """Collects elections that lost records, cycle by cycle."""

    begin_ms: int
    _lost: dict[_Election, tuple[int, bool]] = field(default_factory=dict)
    _unknown: set[_Election] = field(default_factory=set)

    def step(self, state: ShardState, *, is_last: bool) -> None:
        """A cycle of a shard: what is new, or turned out to be a loss; in the last one also what
        became exact meanwhile."""
        losses = state[RecordsLost]
        losses = losses.pick(
            (losses.cause != LossCause.ACKS_1)
            & (losses.at_ms > self.begin_ms)
            & (is_last | (state.observed_at_ms - losses.at_ms <= EVIDENCE_WITHIN_MS))
        )
        for i, place in enumerate(places(state, losses.row)):
            records = int(losses.end_offset[i] - losses.start_offset[i])
            self._lost[(*place, int(losses.at_ms[i]))] = records, bool(losses.end_is_exact[i])
        changes = state[LeaderChanges]
        changes = changes.pick(
            changes.is_unclean
            & ~changes.may_have_joined
            & (changes.changed_at_ms > self.begin_ms)
            & (changes.new_leader != NO_BROKER)
        )
        is_known = (changes.start_offset != UNKNOWN) & (changes.end_offset != UNKNOWN)
        for i, place in enumerate(places(state, changes.row)):
            election = (*place, int(changes.old_epoch[i]))
            if is_known[i]:
                self._unknown.discard(election)
            else:
                self._unknown.add(election)

    def found(self) -> RecordsLostInSpan:
        """The sum; unknown if no election that may have lost records has a known number."""
        records = sum(number for number, _ in self._lost.values())
        is_exact = all(exact for _, exact in self._lost.values())
        is_unknown = bool(self._unknown) and not self._lost
        return RecordsLostInSpan(
            None if is_unknown else records,
            not is_exact or bool(self._unknown),
            len(self._lost),
            len(self._unknown),
        )


@dataclass(slots=True)
class SufferingGroups:
    """Collects groups that suffer what they did not when the span began."""

    is_observed: bool = False
    _known: dict[int, Array] = field(default_factory=dict)  # by place of reading: keys seen
    _numbers: dict[str, int] = field(default_factory=dict)  # of groups and topics
    _found: dict[str, SufferingGroup] = field(default_factory=dict)
    happenings: list[Happening] = field(default_factory=list)

    def step(self, view: ClusterView, at_ms: int, *, is_first: bool) -> None:
        """Take a cycle. Groups that are hurt in the first one were hurt before the span."""
        new: dict[tuple[str, int], set[Place]] = {}
        for state in view.states:
            groups = suffering(state)
            if groups is None:
                continue
            self.is_observed = True
            group, row, reads = groups
            keys = self._keys(state, group, row)
            for place in np.unique(reads).tolist():
                here = np.flatnonzero(reads == place)
                seen = self._known.get(place, np.zeros(0, np.int64))
                here = here[~np.isin(keys[here], seen)]
                self._known[place] = np.union1d(seen, keys[here])
                if is_first or not len(here):
                    continue
                names = state[Groups].group[group[here]].tolist()
                for name, partition in zip(names, places(state, row[here]), strict=True):
                    new.setdefault((str(name), place), set()).add(partition)
        for (name, place), where in new.items():
            self._note(name, ReadsFrom(place).name.lower(), where, at_ms)

    def _note(self, name: str, word: str, where: set[Place], at_ms: int) -> None:
        before = self._found.get(name, SufferingGroup(name, at_ms, {}))
        counts = Counter(before.partitions)
        counts[word] += len(where)
        self._found[name] = SufferingGroup(name, before.at_ms, dict(counts))
        self.happenings.append(
            Happening(
                GROUP_HURT, at_ms, f"group {name} {_WORDS[word]}", name=f"{word} {name}",
                places=frozenset(where),
            )
        )  # fmt: skip

    @property
    def number(self) -> int | None:
        """Groups that were hurt; None if no group was ever observed."""
        return len(self._found) if self.is_observed else None

    @property
    def groups(self) -> list[SufferingGroup]:
        """The first of them, those without a leader before others."""
        order = ("nobody", "nowhere", "ahead", "remote")

        def worst(each: SufferingGroup) -> tuple[int, int, str]:
            first = min(order.index(word) for word in each.partitions)
            return first, -sum(each.partitions.values()), each.group

        return sorted(self._found.values(), key=worst)[:MOST_GROUPS]

    def _keys(self, state: ShardState, group: Array, row: Array) -> Array:
        """[N] a number for each group and partition that is the same in every cycle."""
        index = state[PartitionIndex]
        groups, topics = state[Groups].group, state[Topics].topic
        topic = index.topic_index[row]
        group_number, topic_number = (
            self._numbered(kind, names, used)
            for kind, names, used in (("group", groups, group), ("topic", topics, topic))
        )
        key = group_number << 2 * _BITS | topic_number << _BITS
        return key | index.partition[row].astype(np.int64)

    def _numbered(self, kind: str, names: Array, used: Array) -> Array:
        each, place = np.unique(used, return_inverse=True)
        numbers = [self._numbers.setdefault(f"{kind}/{names[i]}", len(self._numbers)) for i in each]
        return np.array(numbers or [0], np.int64)[place]


_WORDS: Final = {
    "nobody": "reads partitions that nobody leads",
    "nowhere": "has not read records that are deleted",
    "ahead": "continues beyond the log end",
    "remote": "reads from remote storage",
}
