"""Causes with what followed from them, as lines: many happenings of one kind are one line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streaming.history.report import phrases
from streaming.history.report.causes import ROOTS, CauseLink, is_told
from streaming.history.report.happenings import BROKER_LOST, Happening
from streaming.history.report.model import Certainty, Effect, Incident, Line
from twin.declarations.table import UNKNOWN

NAMED: Final = 5
"""Of what a line is about, so many are named."""

_ONE_CHANGE_MS: Final = 60_000
"""Changes of one kind by people within that time are one."""

_BY_PEOPLE: Final = (
    "settings_changed", "reassigned", "replicas_reordered", "replicas_restored",
    "partition_created", "partition_deleted", "unclean_election_held", "restart_judged",
)  # fmt: skip


_BY_NAME: Final = ("settings_changed", "restart_judged")
"""Kinds of which only those with the same name are one: the same settings, the same verdict."""


@dataclass(frozen=True, slots=True)
class Told:
    """The timeline by cause."""

    incidents: list[Incident]
    no_cause: list[Line]
    people: list[Line]


def told(
    happenings: Sequence[Happening], links: Iterable[CauseLink], racks: Mapping[str, frozenset[int]]
) -> Told:
    """Incidents in order of time.

    Args:
        happenings: in order of time.
        links: at most one for each effect.
        racks: brokers by rack, for a rack that is lost as a whole.
    """
    link_of = {each.effect: each for each in links}
    effects: dict[int, list[int]] = defaultdict(list)
    for number in range(len(happenings)):
        if number in link_of:
            effects[link_of[number].cause].append(number)
    shown = [number for number, each in enumerate(happenings) if is_told(each.kind)]
    alone = [number for number in shown if number not in link_of]
    roots = [number for number in alone if happenings[number].kind in ROOTS]
    rest = [happenings[number] for number in alone if happenings[number].kind not in ROOTS]
    people = [each for each in happenings if each.kind in _BY_PEOPLE]
    return Told(
        [
            Incident(
                _line([happenings[n] for n in group], racks),
                _effects(group, happenings, effects, link_of),
            )
            for group in _grouped(roots, happenings)
        ],
        [_line(each) for each in _by_aspect(rest).values()],
        [_line([people[n] for n in group]) for group in _grouped(range(len(people)), people)],
    )


def _grouped(numbers: Iterable[int], happenings: Sequence[Happening]) -> list[list[int]]:
    """Those of one kind in one cycle, and those by people that follow each other soon."""
    groups: list[list[int]] = []
    newest: dict[tuple[str, str], list[int]] = {}
    for number in numbers:
        each = happenings[number]
        key = each.kind, each.name if each.kind in _BY_NAME else ""
        last = newest.get(key)
        within = _ONE_CHANGE_MS if each.kind in _BY_PEOPLE else 0
        if last is not None and each.at_ms - happenings[last[-1]].at_ms <= within:
            last.append(number)
        else:
            newest[key] = [number]
            groups.append(newest[key])
    return groups


def _effects(
    group: Sequence[int],
    happenings: Sequence[Happening],
    effects: Mapping[int, Sequence[int]],
    link_of: Mapping[int, CauseLink],
) -> list[Effect]:
    """All that followed, a line for each way in which it did, in order of the first."""
    lines: dict[tuple[str, ...], list[int]] = {}
    certainty: dict[tuple[str, ...], Certainty] = {}
    waiting: list[tuple[int, tuple[str, ...]]] = [(number, ()) for number in reversed(group)]
    while waiting:
        number, path = waiting.pop()
        for effect in effects.get(number, ()):
            each = happenings[effect]
            is_certain = link_of[effect].certainty == "certain"
            way = (*path, f"{phrases.aspect(each)}{'' if is_certain else '?'}")
            if is_told(each.kind):
                lines.setdefault(way, []).append(effect)
                certainty[way] = link_of[effect].certainty
            waiting.append((effect, way))

    def sort_key(way: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
        """Below the way that leads to it, in order of time."""
        parts = (way[: length + 1] for length in range(len(way)))
        return tuple(
            (happenings[lines[part][0]].at_ms, part[-1]) for part in parts if part in lines
        )

    return [
        Effect(
            _line([happenings[n] for n in lines[way]]),
            len(way),
            happenings[link_of[lines[way][0]].cause].kind,
            certainty[way],
        )
        for way in sorted(lines, key=sort_key)
    ]


def _by_aspect(happenings: Iterable[Happening]) -> dict[str, list[Happening]]:
    aspects: dict[str, list[Happening]] = {}
    for each in happenings:
        aspects.setdefault(phrases.aspect(each), []).append(each)
    return aspects


def _line(happenings: Sequence[Happening], racks: Mapping[str, frozenset[int]] = {}) -> Line:
    """One line of happenings of one kind."""
    first = happenings[0]
    names = list(dict.fromkeys(name for each in happenings for name in names_of(each)))
    text = first.text if len(happenings) == 1 else phrases.many(happenings)
    if first.kind == BROKER_LOST:
        lost = {each.broker for each in happenings}
        whole = sorted(rack for rack, brokers in racks.items() if brokers == lost)
        if whole:
            text = f"rack {whole[0]} was lost: {phrases.many(happenings)}"
    return Line(
        first.at_ms, max(each.at_ms for each in happenings), first.kind, text, len(happenings),
        tuple(names[:NAMED]),
    )  # fmt: skip


def names_of(happening: Happening) -> list[str]:
    """What it is about: partitions, or a broker, a topic or a group."""
    if happening.places and happening.broker == UNKNOWN:
        return [happening.name.partition(" ")[2]]
    if happening.topic and happening.partition != UNKNOWN:
        return [f"{happening.topic}-{happening.partition}"]
    if happening.topic:
        return [happening.topic]
    return [f"broker {happening.broker}"] if happening.broker != UNKNOWN else []
