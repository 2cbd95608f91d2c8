"""What happened, as the causes look at it: events of the past, and what states show beside them.

A broker that falls silent, is fenced and then unregistered is one thing that happened, with the
moments of each sign. Text of an event comes from whoever wrote it; nothing here trusts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from streaming.bus.view import QUERY_KINDS
from twin.declarations.table import NO_BROKER, UNKNOWN

Place = tuple[str, int]
"""Topic and number of a partition."""

BROKER_LOST: Final = "broker_lost"
BROKER_SILENT: Final = "broker_silent"
BROKER_BACK: Final = "broker_back"
DISK_FAILED: Final = "log_dir_failed"
SETTINGS: Final = "settings_changed"
UNCLEAN_BY_HAND: Final = "unclean_election_held"
GROUP_HURT: Final = "group_hurt"
DISK_FULL: Final = "disk_full"

_WITH_DETAIL: Final = ("isr_shrink_explained", "prediction_judged", "restart_judged")

MOST_EVENTS: Final = 200_000
"""More are not read: a loss of 50 000 partitions makes about as many."""

_LOST_SIGNS: Final = {"broker_fenced": "was fenced", "broker_unregistered": "is not registered",
                      "broker_silent": "does not answer"}  # fmt: skip
_BACK_SIGNS: Final = {"broker_unfenced": "is unfenced", "broker_registered": "registered",
                      "broker_answers": "answers"}  # fmt: skip
_ONE_LOSS_MS: Final = 120_000
"""Signs of one broker within that time are signs of one loss; a session is 9 s by default."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened, and what it names."""

    kind: str  # of the event, ``risk_opened/NAME`` for risks
    at_ms: int
    text: str
    topic: str = ""
    partition: int = UNKNOWN
    broker: int = UNKNOWN
    left: frozenset[int] = frozenset()  # brokers that ceased to lead, or to be in sync
    joined: frozenset[int] = frozenset()  # brokers that lead, or are in sync, since then
    leader: int = NO_BROKER  # of the partition then, for risks
    moments: tuple[int, ...] = ()  # of its signs, where it has several
    places: frozenset[Place] = frozenset()  # partitions, where it names several
    name: str = ""  # of a group, or the settings

    @property
    def place(self) -> Place:
        """The partition; an empty topic if it names none."""
        return self.topic, self.partition

    @property
    def times(self) -> tuple[int, ...]:
        """The cycles in which it showed."""
        return self.moments or (self.at_ms,)


@dataclass(frozen=True, slots=True)
class Events:
    """The events of a span, in order."""

    happenings: Sequence[Happening]
    total: int
    unreadable: int
    is_cut: bool
    of_query: int  # what the query says of itself: refused observations, discarded states


class _Event(msgspec.Struct):
    id: str
    kind: str
    at_ms: int
    text: str = ""
    topic: str = ""
    partition: int = UNKNOWN
    broker: int = UNKNOWN
    detail: Any = ""
    before: Sequence[int] = ()
    after: Sequence[int] = ()


def read(messages: Iterable[bytes], after_ms: int, to_ms: int) -> Events:
    """The events after a moment and up to another, in order of time; repeats count once.

    An event of the first cycle itself is of the time before the span.
    """
    events: list[_Event] = []
    known: set[str] = set()
    unreadable = of_query = 0
    is_cut = False
    for message in messages:
        try:
            event = msgspec.json.decode(message, type=_Event)
        except msgspec.MsgspecError:  # of a stranger's capsule
            unreadable += 1
            continue
        if event.id in known or not after_ms < event.at_ms <= to_ms:
            continue
        if event.kind in QUERY_KINDS:
            of_query += 1
            continue
        if len(events) == MOST_EVENTS:
            is_cut = True
            break
        known.add(event.id)
        events.append(event)
    events.sort(key=lambda event: event.at_ms)
    brokers = _brokers(each for each in events if each.kind in _LOST_SIGNS | _BACK_SIGNS)
    others = [_of(each) for each in events if each.kind not in _LOST_SIGNS | _BACK_SIGNS]
    happenings = sorted([*brokers, *others], key=lambda each: each.at_ms)
    return Events(happenings, len(events), unreadable, is_cut, of_query)


def _of(event: _Event) -> Happening:
    before, after = ({*each} - {NO_BROKER} for each in (event.before, event.after))
    kind = event.kind
    if kind in ("risk_opened", "risk_closed"):
        kind = f"{kind}/{event.detail}"
    names_brokers = kind in ("leader_moved", "isr_shrank", "isr_expanded", "reassigned")
    return Happening(
        kind,
        event.at_ms,
        event.text,
        event.topic,
        event.partition,
        event.broker,
        frozenset(before - after) if names_brokers else frozenset(),
        frozenset(after - before) if names_brokers else frozenset(),
        name=str(event.detail) if kind in _WITH_DETAIL else "",
    )


@dataclass(slots=True)
class _Run:
    """Signs of one broker that belong together."""

    is_lost: bool
    signs: list[tuple[int, str]]


def _brokers(events: Iterable[_Event]) -> list[Happening]:
    """Losses and returns, each made of the signs of one broker that follow each other."""
    runs: dict[int, list[_Run]] = {}
    for event in events:
        is_lost = event.kind in _LOST_SIGNS
        of_broker = runs.setdefault(event.broker, [])
        if (
            not of_broker
            or of_broker[-1].is_lost != is_lost
            or event.at_ms - of_broker[-1].signs[-1][0] > _ONE_LOSS_MS
        ):
            of_broker.append(_Run(is_lost, []))
        of_broker[-1].signs.append((event.at_ms, event.kind))
    return [_happened(broker, run) for broker, of in runs.items() for run in of]


def _happened(broker: int, run: _Run) -> Happening:
    kinds = list(dict.fromkeys(kind for _, kind in run.signs))
    words: Mapping[str, str] = _LOST_SIGNS if run.is_lost else _BACK_SIGNS
    signs = " and ".join(words[kind] for kind in kinds)
    moments = tuple(dict.fromkeys(at_ms for at_ms, _ in run.signs))
    if not run.is_lost:
        kind, text = BROKER_BACK, f"broker {broker} is back: it {signs} again"
    elif kinds == ["broker_silent"]:
        kind, text = BROKER_SILENT, f"broker {broker} does not answer, and was not fenced"
    else:
        kind, text = BROKER_LOST, f"broker {broker} was lost: it {signs}"
    happening = Happening(kind, moments[0], text, broker=broker, moments=moments)
    return replace(happening, left=frozenset((broker,)) if run.is_lost else frozenset())
