"""What changed between two states of a shard, as sentences a person would want to hear.

Only changed rows are looked at one by one. What is seen for the first time is not a change: a twin
that starts says nothing. A change has an id made of what it says, so a repeat can be recognised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from twin.fleet import Array, Fleet
from twin.rules.risks import RULES
from twin.rules.shrinks import SENTENCE
from twin.tables import NO_BROKER, UNKNOWN, Coverage, Slot, Verdict

BROKER_EVENTS_SHARD: Final = 0
"""Every shard hears of every broker; one speaks of them."""

_WOULD: Final = {
    1: "; KIP-501 would have kept it",
    0: "; KIP-501 would not have kept it",
    UNKNOWN: "",
}

_RULE_OF_BIT: Final = [(int(rule.risk), rule) for rule in RULES]


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
    detail: str = ""  # tells apart changes of one kind, e.g. which risk
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @property
    def id(self) -> str:
        """The same change has the same id, however often it is told."""
        place = f"{self.topic}-{self.partition}" if self.topic else f"broker-{self.broker}"
        parts = (self.cluster, place, self.kind, self.detail, str(self.broker), str(self.at_ms))
        return "/".join(part for part in parts if part)


def changes(before: Fleet, after: Fleet) -> list[Change]:
    """Everything that happened to the shard between two states, partitions first, then brokers."""
    if before.observed_at_ms == UNKNOWN:
        return []
    told = _Teller(before, after)
    told.partitions()
    if after.shard == BROKER_EVENTS_SHARD:
        told.brokers()
        told.remote_reads()
    return told.heard


class _Teller:
    """Rows of both states side by side, and the list that grows."""

    def __init__(self, before: Fleet, after: Fleet) -> None:
        self.before, self.after = before, after
        self.heard: list[Change] = []

    def partitions(self) -> None:
        """Compare the rows both states have; name those that one of them lacks."""
        old, new = _common_rows(self.before, self.after)
        before, after = self.before, self.after
        described = (before.described_at_ms[old] != UNKNOWN) & (
            after.described_at_ms[new] != UNKNOWN
        )
        self._created_and_deleted(old, new)
        old, new = old[described], new[described]
        if len(old):
            self._leaders(old, new)
            self._replicas(old, new)
            self._risks(old, new)
        self._explained()

    def _created_and_deleted(self, old: Array, new: Array) -> None:
        if len(old) == len(self.before) and len(new) == len(self.after):
            return
        for row in np.setdiff1d(np.arange(len(self.after)), new):
            self._say(row, "partition_created", "{p} was created")
        for row in np.setdiff1d(np.arange(len(self.before)), old):
            self._say(row, "partition_deleted", "{p} was deleted", of=self.before)

    def _leaders(self, old: Array, new: Array) -> None:
        was, now = self.before.leader[old], self.after.leader[new]
        for i in np.flatnonzero(was != now):
            text = (
                f"{{p}} lost its leader {was[i]}: it is offline"
                if now[i] == NO_BROKER
                else f"{{p}} is led by {now[i]}"
                + (f", was {was[i]}" if was[i] != NO_BROKER else "")
            )
            self._say(new[i], "leader_moved", text, broker=int(now[i]),
                      before=(int(was[i]),), after=(int(now[i]),))  # fmt: skip

    def _replicas(self, old: Array, new: Array) -> None:
        """ISR and coverage, replica by replica; replicas are found by broker, not by slot."""
        before, after = self.before, self.after
        width = max(before.slots, after.slots)
        was_id, now_id = (
            _padded(np.where(f.present[r], f.broker[r], NO_BROKER), width, NO_BROKER)
            for f, r in ((before, old), (after, new))
        )
        was_slot = _padded(before.slot[old], width, 0)
        was_cover = _padded(before.coverage[old], width, Coverage.ASSUMED)
        shuffled = np.flatnonzero((was_id != now_id).any(axis=1))
        for i in shuffled:
            held, holds = (
                tuple(int(b) for b in ids[i] if b != NO_BROKER) for ids in (was_id, now_id)
            )
            self._say(new[i], "reassigned", f"{{p}} is assigned to {list(holds)}, was {list(held)}",
                      before=held, after=holds)  # fmt: skip
        if len(shuffled):
            match = now_id[shuffled][:, :, None] == was_id[shuffled][:, None, :]
            at, found = match.argmax(axis=2), match.any(axis=2)
            was_slot[shuffled] = np.where(found, np.take_along_axis(was_slot[shuffled], at, 1), 0)
            was_cover[shuffled] = np.where(
                found, np.take_along_axis(was_cover[shuffled], at, 1), Coverage.ASSUMED
            )
        here = now_id != NO_BROKER
        now_slot = _padded(after.slot[new], width, 0)
        now_cover = _padded(after.coverage[new], width, Coverage.ASSUMED)
        was_in, now_in = ((s & Slot.IN_ISR) != 0 for s in (was_slot, now_slot))
        for i in np.flatnonzero((here & (was_in != now_in)).any(axis=1)):
            isr = tuple(int(b) for b in now_id[i][now_in[i]])
            held = tuple(int(b) for b in now_id[i][was_in[i]])
            left, joined = sorted(set(held) - set(isr)), sorted(set(isr) - set(held))
            if left:
                text = f"{{p}}: {_names(left)} left the ISR, {list(isr)} stay"
                self._say(new[i], "isr_shrank", text + self._why(new[i]), before=held, after=isr)
            if joined:
                text = f"{{p}}: {_names(joined)} joined the ISR {list(isr)}"
                self._say(new[i], "isr_expanded", text, before=held, after=isr)
        was_thin, now_thin = was_cover == Coverage.THIN, now_cover == Coverage.THIN
        for i, slot in np.argwhere(here & (was_thin != now_thin)):
            broker = int(now_id[i, slot])
            kind, word = (
                ("replica_thin", "holds too little local log to lead")
                if now_thin[i, slot]
                else ("replica_eligible", "holds enough local log to lead")
            )
            self._say(new[i], kind, f"{{p}}: replica {broker} {word}", broker=broker)

    def _why(self, row: int) -> str:
        """What the twin makes of the shrinks that this cycle showed in that row."""
        of = self.after.shrinks
        first, last = np.searchsorted(of.row, (row, row + 1))
        here = np.arange(first, last)[of.at_ms[first:last] == self.after.observed_at_ms]
        verdicts = {Verdict(v) for v in of.verdict[here].tolist()} - {Verdict.UNEXPLAINED}
        reasons = [SENTENCE[verdict] for verdict in sorted(verdicts)]
        if (of.kept_by_solution_1[here] == 1).any():
            reasons.append("KIP-501 would have kept it")
        return f" ({'; '.join(reasons)})" if reasons else ""

    def _explained(self) -> None:
        """Shrinks that a log told of, once more is known of them than a poll could tell.

        An ISR that shrinks and expands between two polls is told of here alone.
        """
        known = _judged(self.before)
        for facts, row in _judged(self.after).items():
            if facts in known:
                continue
            *_, leader, broker, at_ms, verdict, kept = facts
            text = f"{{p}}: replica {broker} left the ISR of {leader}: {SENTENCE[Verdict(verdict)]}"
            self._say(row, "isr_shrink_explained", text + _WOULD[kept], broker=broker,
                      detail=f"{Verdict(verdict).name.lower()}/{kept}/{at_ms}")  # fmt: skip

    def _risks(self, old: Array, new: Array) -> None:
        was, now = self.before.risks[old], self.after.risks[new]
        for i in np.flatnonzero(was != now):
            opened, closed = int(now[i] & ~was[i]), int(was[i] & ~now[i])
            for bit, rule in _RULE_OF_BIT:
                if opened & bit:
                    self._say(new[i], "risk_opened", f"{{p}}: {rule.sentence}", detail=rule.name)
                elif closed & bit:
                    text = f"{{p}}: no longer {rule.name}"
                    self._say(new[i], "risk_closed", text, detail=rule.name)

    def remote_reads(self) -> None:
        """Brokers that began or ceased to read from remote storage for consumers."""
        was, now = self.before.signals, self.after.signals
        both, old, new = np.intersect1d(was.broker, now.broker, return_indices=True)
        before, after = (s.of("remote_fetch_requests_per_s")[at]
                         for s, at in ((was, old), (now, new)))  # fmt: skip
        for i in np.flatnonzero((after > 0) & ~(before > 0)):
            text = f"reads from remote storage for consumers: {after[i]:.3g} requests/s"
            self._say_broker(int(both[i]), "remote_reads_began", text)
        for i in np.flatnonzero((before > 0) & (after == 0)):
            self._say_broker(int(both[i]), "remote_reads_ended", "reads from its own disk again")

    def brokers(self) -> None:
        """Brokers that came, went, were fenced, or stopped answering."""
        was, now = self.before.brokers, self.after.brokers
        if not len(was.broker) or now is was:
            return
        for broker in np.setdiff1d(now.broker, was.broker):
            self._say_broker(int(broker), "broker_registered", "registered")
        for broker in np.setdiff1d(was.broker, now.broker):
            self._say_broker(int(broker), "broker_unregistered", "is no longer registered")
        both, old, new = np.intersect1d(was.broker, now.broker, return_indices=True)
        for i, broker in enumerate(both.tolist()):
            fenced = (int(was.fenced[old[i]]), int(now.fenced[new[i]]))
            if fenced[0] != fenced[1] and UNKNOWN not in fenced:
                self._say_broker(
                    broker,
                    "broker_fenced" if fenced[1] else "broker_unfenced",
                    "was fenced: it leads nothing" if fenced[1] else "is unfenced again",
                )
            if was.answered[old[i]] != now.answered[new[i]]:
                self._say_broker(
                    broker,
                    "broker_answers" if now.answered[new[i]] else "broker_silent",
                    "answers again" if now.answered[new[i]] else "does not answer in time",
                )

    def _say(self, row: int, kind: str, text: str, of: Fleet | None = None, **more: Any) -> None:
        fleet = self.after if of is None else of
        topic, partition = (
            str(fleet.topics.topic[fleet.topic_index[row]]),
            int(fleet.partition[row]),
        )
        self.heard.append(
            Change(
                kind=kind,
                at_ms=self.after.observed_at_ms,
                cluster=self.after.cluster,
                text=text.replace("{p}", f"{topic}-{partition}"),
                topic=topic,
                partition=partition,
                **more,
            )
        )

    def _say_broker(self, broker: int, kind: str, text: str) -> None:
        at_ms, cluster = self.after.observed_at_ms, self.after.cluster
        self.heard.append(Change(kind, at_ms, cluster, f"broker {broker} {text}", broker=broker))


def _judged(fleet: Fleet) -> dict[tuple[Any, ...], int]:
    """The shrinks that a log told of and of which more is known: what is known, and their row."""
    of = fleet.shrinks
    known = (of.verdict != Verdict.UNEXPLAINED) | (of.kept_by_solution_1 != UNKNOWN)
    of = of.picked((of.told_at_ms != UNKNOWN) & known)
    ids = fleet.topics.topic_id[fleet.topic_index[of.row]].tolist()
    facts = (fleet.partition[of.row], of.leader, of.broker, of.told_at_ms, of.verdict,
             of.kept_by_solution_1)  # fmt: skip
    keys = zip(ids, *(column.tolist() for column in facts), strict=True)
    return dict(zip(keys, of.row.tolist(), strict=True))


def _common_rows(before: Fleet, after: Fleet) -> tuple[Array, Array]:
    """[N], [N] the rows of the partitions that both states have, by topic id and number."""
    same_topics = np.array_equal(before.topics.topic_id, after.topics.topic_id)
    if (
        same_topics
        and np.array_equal(before.topic_index, after.topic_index)
        and np.array_equal(before.partition, after.partition)
    ):
        rows = np.arange(len(after))
        return rows, rows
    at = {topic_id: i for i, topic_id in enumerate(after.topics.topic_id)}
    moved = np.array([at.get(i, UNKNOWN) for i in before.topics.topic_id] + [UNKNOWN], np.int64)
    was = moved[before.topic_index] << 32 | before.partition
    now = after.topic_index.astype(np.int64) << 32 | after.partition
    was = np.where(moved[before.topic_index] < 0, UNKNOWN, was)
    _, old, new = np.intersect1d(was, now, assume_unique=False, return_indices=True)
    return old, new


def _padded(table: Array, width: int, fill: int) -> Array:
    padded = np.full((len(table), width), fill, table.dtype)
    padded[:, : table.shape[1]] = table
    return padded


def _names(brokers: list[int]) -> str:
    return ("replica " if len(brokers) == 1 else "replicas ") + ", ".join(map(str, brokers))
