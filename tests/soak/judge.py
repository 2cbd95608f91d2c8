"""The judges of a soak: pure functions from what was recorded to what agrees and what does not.

``own_record`` reads the twin's record alone. ``compare_leaders`` holds it against the controllers'
log, in both directions. ``judge_note`` holds predictions that were noted before a fault against
that log, without the twin's own judgement.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Final, NamedTuple

from tests.soak.controller_log import Change, Key
from tests.soak.record import Prediction
from twin.arrays.plain import counted

RESULTS: Final = ("right", "wrong", "overtaken", "unforeseen")
MOST_PERCENT: Final = 5
"""Largest share of overtaken and of unforeseen changes with which the record proves something."""

_NAMELESS: Final = frozenset(("", "nothing"))

BEHIND_MS: Final = 6_000
"""A broker answers with metadata that is at most so old: one that starts, or is back from a freeze,
replays. On two cores at a load of 25 a running broker was 4.5 s behind."""

AHEAD_MS: Final = 2_000
"""An observation carries the time of its begin; its metadata is read up to a deadline later."""

_ELECTORATE: Final = frozenset(
    ("isr", "replicas", "removingReplicas", "addingReplicas", "eligibleLeaderReplicas",
     "lastKnownElr", "leaderRecoveryState")
)  # fmt: skip
"""Fields of a partition that an election depends on, beside the leader itself."""


@dataclass(frozen=True, slots=True)
class OwnRecord:
    """The twin's record, counted by its own results."""

    results: Mapping[str, int]
    causes: Mapping[tuple[str, str], int]  # cause and result
    overtaken_by: Mapping[str, int]
    of_several: Mapping[str, int]  # the results while several brokers were away
    wrong: Sequence[Prediction]
    miscalled: Sequence[Prediction]  # right with another leader, or not right with this one

    @property
    def total(self) -> int:
        """All leader changes."""
        return sum(self.results.values())

    def of_one(self, result: str) -> int:
        """Leader changes with that result while one broker at most was away."""
        return self.results.get(result, 0) - self.of_several.get(result, 0)

    @property
    def objections(self) -> list[str]:
        """The objections, a line each."""
        lines = [] if self.results.get("right") else ["no leader change was predicted right"]
        if self.wrong:
            lines.append(f"{len(self.wrong)} predictions are wrong")
        if self.miscalled:
            lines.append(f"{len(self.miscalled)} have a result that their leaders contradict")
        total = self.total - sum(self.of_several.values())
        for result in ("overtaken", "unforeseen"):
            count = self.of_one(result)
            if 100 * count > MOST_PERCENT * total:
                lines.append(f"{count} of {total} are {result}, with one broker away at most")
        if nameless := sum(n for by, n in self.overtaken_by.items() if by in _NAMELESS):
            lines.append(f"{nameless} are overtaken by nothing that is named")
        if strange := sorted(self.results.keys() - set(RESULTS)):
            lines.append(f"unknown results: {', '.join(strange)}")
        return lines


class Span(NamedTuple):
    """A time from one moment, exclusive, to another."""

    from_ms: int
    to_ms: int

    def has(self, at_ms: int) -> bool:
        """The moment is in it."""
        return self.from_ms < at_ms <= self.to_ms


def own_record(predictions: Iterable[Prediction], of_several: Sequence[Span] = ()) -> OwnRecord:
    """Count the twin's record.

    Args:
        predictions: the record.
        of_several: when several brokers were away. What one loss changes is often unobserved when
            the next one happens, so more predictions may be overtaken then.
    """
    rows = list(predictions)
    return OwnRecord(
        Counter(p.result for p in rows),
        Counter((p.cause, p.result) for p in rows),
        Counter(p.overtaken_by for p in rows if p.result == "overtaken"),
        Counter(p.result for p in rows if any(span.has(p.at_ms) for span in of_several)),
        [p for p in rows if p.result == "wrong"],
        [p for p in rows if (p.result == "right") != (p.predicted_leader == p.new_leader)],
    )


class Disagreement(NamedTuple):
    """An observation at which the twin's record has a leader that Kafka had not."""

    key: Key
    at_ms: int
    twin: int
    kafka: tuple[int, ...]  # all leaders around that time
    kind: str  # "missing" or "invented"


@dataclass(frozen=True, slots=True)
class Agreement:
    """One partition's leader changes in Kafka's log and in the twin's record."""

    kafka: int  # changes of the leader
    twin: int  # records
    paired: int  # of both
    superseded_ms: Sequence[int]  # how long each leader led that no observation saw
    disagreements: Sequence[Disagreement]


def compare_leaders(
    first_leader: int,
    changes: Sequence[Change],
    predictions: Sequence[Prediction],
    observed_ms: Sequence[int],
    span: Span,
) -> Agreement:
    """Whether the twin's record has exactly the leader changes of a partition that it could see.

    At each observation the leader by the twin's record must be one that Kafka had around that time.
    So a change that is not in the record, and one that only is in the record, both disagree; one
    that was undone or superseded before an observation does not.

    Args:
        first_leader: the leader when the partition was created.
        changes: all records of the controller about the partition, in order.
        predictions: the twin's records of the partition, in order of time.
        observed_ms: the times of all observations of the partition, sorted.
        span: observations and changes outside are not judged.
    """
    moves = [change for change in changes if change.moves_leader]
    moved_ms = [move.at_ms for move in moves]
    leaders = [first_leader, *(move.new_leader for move in moves)]

    def kafka(from_ms: int, to_ms: int) -> tuple[int, ...]:
        first, last = bisect_right(moved_ms, from_ms), bisect_right(moved_ms, to_ms)
        return tuple(dict.fromkeys(leaders[first : last + 1]))

    judged = [p for p in predictions if span.has(p.at_ms)]
    pending = list(reversed(judged))
    twin = kafka(span.from_ms, span.from_ms)[0]
    disagreements: list[Disagreement] = []
    did_agree = True
    for at_ms in observed_ms:
        if not span.has(at_ms):
            continue
        possible = kafka(at_ms - BEHIND_MS, at_ms + AHEAD_MS)
        kind = "missing"
        while pending and pending[-1].at_ms <= at_ms:
            record = pending.pop()
            if did_agree and record.old_leader != twin:
                disagreements.append(
                    Disagreement(record.key, record.at_ms, twin, (record.old_leader,), "missing")
                )
            twin = record.new_leader
            kind = "invented"
        if twin not in possible and did_agree:
            key = (changes or judged)[0].key
            disagreements.append(Disagreement(key, at_ms, twin, possible, kind))
        did_agree = twin in possible
    disagreements += [
        Disagreement(p.key, p.at_ms, p.new_leader, (), "invented") for p in reversed(pending)
    ]
    return _counted(moves, judged, observed_ms, disagreements, span)


def _counted(
    moves: Sequence[Change],
    judged: Sequence[Prediction],
    observed_ms: Sequence[int],
    disagreements: Sequence[Disagreement],
    span: Span,
) -> Agreement:
    """Give each record of the twin the newest change to its leader that it can be about."""
    in_span = [n for n, move in enumerate(moves) if span.has(move.at_ms)]
    recorded: set[int] = set()
    for record in judged:
        candidates = [
            n
            for n in in_span
            if n not in recorded
            and moves[n].at_ms <= record.at_ms + AHEAD_MS
            and moves[n].new_leader == record.new_leader
        ]
        recorded.update(candidates[-1:])
    superseded_ms = []
    for n, following in pairwise(in_span):
        from_ms, over_ms = moves[n].at_ms, moves[following].at_ms
        before = [record.new_leader for record in judged if record.at_ms <= over_ms]
        # A leader that is back before the twin saw that it had gone is the leader of the record.
        by_record = before[-1] if before else moves[in_span[0]].old_leader
        first = bisect_left(observed_ms, from_ms + BEHIND_MS)
        is_observed = observed_ms[first : first + 1] and observed_ms[first] < over_ms - AHEAD_MS
        if n not in recorded and by_record != moves[n].new_leader and not is_observed:
            superseded_ms.append(over_ms - from_ms)
    return Agreement(len(in_span), len(judged), len(recorded), superseded_ms, disagreements)


class Decides(Enum):
    """The leader that decides whether a noted prediction came true."""

    FIRST = "first"  # that Kafka elected after the note
    LAST = "last"  # before the brokers came back: several were lost, one after the other


@dataclass(frozen=True, slots=True)
class Note:
    """Predictions of the API for the partitions that brokers led, just before they were lost."""

    fault: str
    observed_ms: Mapping[Key, int]  # of what each prediction is made
    predicted: Mapping[Key, int]  # next leader
    to_ms: int  # when the brokers were back
    decides: Decides = Decides.FIRST


@dataclass(frozen=True, slots=True)
class NoteResult:
    """A note against the controllers' log: how many right, and the others by name."""

    right: int = 0
    wrong: Sequence[str] = ()
    overtaken: Sequence[str] = ()
    unmoved: int = 0  # nothing happened to them: a freeze may end before anybody is fenced

    @property
    def objections(self) -> list[str]:
        """The objections, a line each."""
        if self.wrong:
            return [f"{len(self.wrong)} are wrong"]
        return [] if self.right else ["none came true"]

    def __add__(self, other: NoteResult) -> NoteResult:
        return NoteResult(
            self.right + other.right,
            [*self.wrong, *other.wrong],
            [*self.overtaken, *other.overtaken],
            self.unmoved + other.unmoved,
        )


def judge_note(note: Note, changes: Mapping[Key, Sequence[Change]]) -> NoteResult:
    """The leader that Kafka elected for each noted partition after the note, if any.

    Where the last one decides, only the brokers of the note were lost: nothing overtakes it.
    """
    result = NoteResult()
    for key, predicted in note.predicted.items():
        history = [
            change
            for change in changes.get(key, ())
            if note.observed_ms[key] < change.at_ms <= note.to_ms
        ]
        moves = [n for n, change in enumerate(history) if change.moves_leader]
        if not moves:
            result += NoteResult(unmoved=1)
            continue
        is_first = note.decides is Decides.FIRST
        moved = moves[0 if is_first else -1]
        change = history[moved]
        before = {f for c in history[:moved] for f in c.fields} & _ELECTORATE if is_first else ()
        text = (
            f"{note.fault}: {key[0]}-{key[1]} went from {change.old_leader} to "
            f"{change.new_leader} at {change.at_ms}, predicted {predicted}"
        )
        if change.new_leader == predicted:
            result += NoteResult(right=1)
        elif before:
            result += NoteResult(overtaken=[f"{text}; {', '.join(sorted(before))} changed before"])
        else:
            result += NoteResult(wrong=[text])
    return result


@dataclass(frozen=True, slots=True)
class Comparison:
    """The controllers' log and the twin's record, over all partitions."""

    kafka: int
    twin: int
    paired: int
    superseded_ms: Sequence[int]
    disagreements: Sequence[Disagreement]
    unlogged: Sequence[Key]  # partitions of the twin's record that no log names

    @property
    def objections(self) -> list[str]:
        """The objections, a line each."""
        kinds = Counter(d.kind for d in self.disagreements)
        lines = [f"{n} leader changes are {kind}" for kind, n in sorted(kinds.items())]
        if self.unlogged:
            number = counted(
                len(self.unlogged), "partition of the record is", "partitions of the record are"
            )
            lines.append(f"{number} in no log")
        if not self.kafka:
            lines.append("Kafka's log has no leader change")
        if self.paired != self.twin:
            lines.append(f"{self.twin - self.paired} of {self.twin} records are of no change")
        return lines


def compare_all(
    first_leader: Mapping[Key, int],
    changes: Mapping[Key, Sequence[Change]],
    predictions: Sequence[Prediction],
    observed_ms: Mapping[Key, Sequence[int]],
    span: Span,
) -> Comparison:
    """``compare_leaders`` of every partition in the log or in the record."""
    by_key: dict[Key, list[Prediction]] = {}
    for p in sorted(predictions, key=lambda p: p.at_ms):
        by_key.setdefault(p.key, []).append(p)
    results = [
        compare_leaders(
            leader, changes.get(key, ()), by_key.get(key, ()), observed_ms.get(key, ()), span
        )
        for key, leader in first_leader.items()
    ]
    return Comparison(
        sum(r.kafka for r in results),
        sum(r.twin for r in results),
        sum(r.paired for r in results),
        sorted(ms for r in results for ms in r.superseded_ms),
        sorted((d for r in results for d in r.disagreements), key=lambda d: d.at_ms),
        sorted(by_key.keys() - first_leader.keys()),
    )
