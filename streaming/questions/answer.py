"""An answer to a question, and why there may be none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from streaming.runtime.errors import UserError
from streaming.runtime.quantities import size_text
from twin.arrays.plain import counted
from twin.declarations.table import NO_BROKER
from twin.engine.shard_state import ShardState
from twin.kafka.election import OUTCOME_WORDS
from twin.rules.tiering.coverage import COVERAGE_WORDS
from twin.tables.state import Brokers


class WhatIfError(UserError):
    """The question cannot be answered; one line says why."""


class NotThereError(WhatIfError):
    """The question names something that the twin does not know."""


class ConflictError(WhatIfError):
    """The question is valid, but cannot be answered in the present state."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The output of a command: sentences and rows of a table, made of ``data``, which is JSON.

    ``data`` may list fewer rows than the ``total``: an exporter lists the worst.
    """

    data: Mapping[str, Any]
    lines: Sequence[str]
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    total: int | None = None  # of rows; None if all are there


def brokers_of(states: Sequence[ShardState]) -> list[int]:
    """The ids of all brokers that the twin knows."""
    return sorted({int(broker) for state in states for broker in state[Brokers].broker})


def check_broker(broker: int, existing: Sequence[int], hint: str = "") -> None:
    """Refuse a broker that does not exist.

    Raises:
        NotThereError: it does not.
    """
    if broker not in existing:
        raise NotThereError(f"there is no broker {broker}; brokers are {listed(existing)}{hint}")


def listed(brokers: Iterable[int]) -> str:
    """Ids for a sentence."""
    return ", ".join(map(str, brokers)) or "none"


def safety_words(following: Mapping[str, Any]) -> str:
    """How safe the next leader is, and whether it is warm or cold: "in sync, cold"."""
    outcome, coverage = following["outcome"], following["coverage"]
    words = OUTCOME_WORDS.get(outcome, "unknown")
    return f"{words}, {COVERAGE_WORDS[coverage]}" if coverage else words


def broker_or_nobody(broker: int) -> str:
    """An id for a table."""
    return "nobody" if broker == NO_BROKER else str(broker)


def some(names: Sequence[str], count: int | None = None, most: int = 5) -> str:
    """The first names of a list, and how many more there are, of ``count`` in all."""
    more = (len(names) if count is None else count) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


_MOST_GROUPS: Final = 5


def harm_lines(
    hurt: Sequence[Mapping[str, Any]], count: int | None = None, remote_bytes: int | None = None
) -> list[str]:
    """Sentences for a person: how many groups, and the worst of them.

    ``count`` and ``remote_bytes`` are those of all groups, where not all are listed.
    """
    if not hurt:
        return []
    count = len(hurt) if count is None else count
    if remote_bytes is None:
        remote_bytes = sum(each["remote_bytes"] for each in hurt)
    who = counted(
        count, "group of consumers is hurt; it reads", "groups of consumers are hurt; they read"
    )
    lines = [f"{who} {size_text(remote_bytes)} more from remote storage."]
    for each in hurt[:_MOST_GROUPS]:
        lines.append(
            f"  {each['group']}: {_cannot_read(each)}{counted(each['remote_records'], 'record')} "
            f"({size_text(each['remote_bytes'])}) of {counted(each['remote'], 'partition')}"
        )
    if count > _MOST_GROUPS:
        lines.append(f"  and {count - _MOST_GROUPS} more")
    return lines


def _cannot_read(harm: Mapping[str, Any]) -> str:
    """The partitions that the group could not read, by why, each followed by a comma."""
    offline, ahead, nowhere = (harm[name] for name in ("offline", "ahead", "nowhere"))
    parts = (
        f"{counted(offline, 'partition')} offline, " if offline else "",
        f"ahead of {counted(ahead, 'log')}, " if ahead else "",
        f"below the start of {counted(nowhere, 'log')}, " if nowhere else "",
    )
    return "".join(parts)
