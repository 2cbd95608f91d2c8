"""How the data of each source came about: one of five outcomes, never none.

The list has each ``About`` of the sources, so a source that has recorded nothing is *not tried*.
What brokers do not offer follows from their own lists of versions (ApiVersions), which a client
gets with each connection: no request is needed to know it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from typing import Final

from streaming.collector.about import About, Needed
from streaming.collector.problem import NOT_OFFERED, Problem
from streaming.collector.source import Source
from streaming.collector.sources import SOURCES
from streaming.collector.wire.connections import Versions, negotiate_version
from twin.arrays.plain import counted
from twin.declarations.table import NO_BROKER

_MOST_BROKERS: Final = 5


class ReadOutcome(Enum):
    """How a source ended, in the words that ``kafka-twin check`` prints."""

    ANSWERED = "asked and answered"
    REFUSED = "refused"  # a right is missing
    NOT_OFFERED = "not offered"
    NOT_TRIED = "not tried"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SourceOutcome:
    """The outcome of one kind of data; ``why`` is empty if it was answered."""

    about: About
    outcome: ReadOutcome
    why: str = ""

    def __str__(self) -> str:
        return f"{self.outcome.value}{f': {self.why}' if self.why else ''}"


def not_offered(sources: Iterable[Source], versions: Mapping[int, Versions]) -> Iterator[Problem]:
    """One problem for each kind of data that brokers do not offer, for any number of them.

    Args:
        sources: those that are asked for; what the configuration or cluster does without is
            left out.
        versions: the versions of each API key, by broker.
    """
    seen = set()
    for source in sources:
        for about in source.about:
            if about in seen or about.name in source.off:
                continue
            seen.add(about)
            lacking = {need: _lacking(need, versions) for need in about.needs}
            texts = [_text(need, them, versions) for need, them in lacking.items() if them]
            if texts:
                yield Problem(about.name, NO_BROKER, NOT_OFFERED, "; ".join(texts))


def _lacking(need: Needed, versions: Mapping[int, Versions]) -> list[int]:
    """The brokers that do not have the request in a version that the source can use."""
    usable = {b: negotiate_version(v, need.message, need.highest) for b, v in versions.items()}
    return sorted(b for b, version in usable.items() if version is None or version < need.lowest)


def _text(need: Needed, lacking: Sequence[int], versions: Mapping[int, Versions]) -> str:
    more = counted(len(lacking) - _MOST_BROKERS, "more", "more")
    some = ", ".join(map(str, lacking[:_MOST_BROKERS]))
    some += f" and {more}" if len(lacking) > _MOST_BROKERS else ""
    who = f"brokers {some} do" if len(lacking) > 1 else f"broker {some} does"
    lowest = f" from version {need.lowest} on" if need.lowest else ""
    what = f"{who} not offer {need.name}{lowest}, which {need.since} and later have"
    is_everywhere = len(lacking) == len(versions)
    return what if is_everywhere else f"{what}; the others do"


def outcomes(
    sources: Sequence[Source],
    problems: Iterable[Problem],
    answered: Mapping[object, Set[int]],
    read: Set[type[Source]],
    *,
    has_topics: bool,
) -> tuple[SourceOutcome, ...]:
    """The outcome of every kind of data that the collector knows, in the order of the sources.

    Args:
        sources: those that the configuration switches on.
        problems: what is missing, and why.
        answered: API keys of the requests that were answered, by class of source.
        read: the classes of sources that have returned a reading.
        has_topics: whether the cluster has a topic to ask about.
    """
    made = {type(source): source for source in sources}
    by_name: dict[str, list[Problem]] = {}
    for problem in problems:
        by_name.setdefault(problem.source, []).append(problem)
    found: dict[str, SourceOutcome] = {}
    for kind in SOURCES:
        source = made.get(kind)
        keys = answered.get(kind, frozenset())
        for about in kind.about:
            result = _of_problems(about, by_name.get(about.name, ()))
            lacks_topic = not has_topics and _is_of_topics(about)
            if (
                result is None
                and not lacks_topic
                and _is_answered(about, keys, is_read=kind in read)
            ):
                result = SourceOutcome(about, ReadOutcome.ANSWERED)
            if result is None:
                why = _why_not(about, source, lacks_topic=lacks_topic)
                result = SourceOutcome(about, ReadOutcome.NOT_TRIED, why)
            before = found.get(about.name)
            if before is None or before.outcome is ReadOutcome.NOT_TRIED:
                found[about.name] = result
    return tuple(found.values())


def _is_answered(about: About, keys: Set[int], *, is_read: bool) -> bool:
    if about.needs:
        return any(need.message.API_KEY in keys for need in about.needs)
    return is_read


def _of_problems(about: About, problems: Sequence[Problem]) -> SourceOutcome | None:
    """The outcome of a source that reports something: what a right mends first, then the rest."""
    for outcome in (ReadOutcome.REFUSED, ReadOutcome.FAILED, ReadOutcome.NOT_OFFERED):
        texts = [problem.text for problem in problems if _outcome(problem) is outcome]
        if texts:
            right = about.right
            if outcome is ReadOutcome.REFUSED and right is not None:
                return SourceOutcome(about, outcome, f"{right.operation} on {right.covers}")
            return SourceOutcome(about, outcome, "; ".join(dict.fromkeys(texts)))
    return None


def _outcome(problem: Problem) -> ReadOutcome:
    if problem.is_denied:
        return ReadOutcome.REFUSED
    return ReadOutcome.NOT_OFFERED if problem.error == NOT_OFFERED else ReadOutcome.FAILED


def _is_of_topics(about: About) -> bool:
    return about.right is not None and about.right.resource == "topic"


def _why_not(about: About, source: Source | None, *, lacks_topic: bool) -> str:
    """Why a source has sent no request that was answered."""
    if source is None:
        option = about.option or (about.right.option if about.right is not None else "")
        return f"{option} is off" if option else about.idle
    if about.name in source.off:
        return source.off[about.name]
    return "there is no topic" if lacks_topic else about.idle
