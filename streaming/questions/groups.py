"""Groups of consumers in the answers to questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NotRequired, TypedDict

from streaming.runtime.quantities import size_text
from twin.arrays.plain import counted
from twin.questions.whatif_groups import GroupHarm

_MOST_LINES: Final = 5


class HurtGroup(TypedDict):
    """The harm to one group of consumers: numbers of partitions, and sums over them.

    ``ahead``: the log ends before its offset then; ``nowhere``: it begins above it.
    """

    group: str
    offline: int
    ahead: int
    nowhere: int
    remote: int
    remote_records: int
    remote_bytes: int
    remote_bytes_by_rule: NotRequired[Mapping[str, int]]  # where leaders move, by election rule
    unknown: int


def harm_data(harm: GroupHarm) -> HurtGroup:
    """The harm as plain data."""
    return {**changed_data(harm), "remote_bytes_by_rule": harm.remote_bytes_by_rule}


def changed_data(harm: GroupHarm) -> HurtGroup:
    """The same where no leader moves, so that no election rule matters."""
    return {
        "group": harm.group,
        "offline": harm.offline,
        "ahead": harm.ahead,
        "nowhere": harm.nowhere,
        "remote": harm.remote,
        "remote_records": harm.remote_records,
        "remote_bytes": harm.remote_bytes,
        "unknown": harm.unknown,
    }


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
    for each in hurt[:_MOST_LINES]:
        lines.append(
            f"  {each['group']}: {_cannot_read(each)}{counted(each['remote_records'], 'record')} "
            f"({size_text(each['remote_bytes'])}) of {counted(each['remote'], 'partition')}"
        )
    if count > _MOST_LINES:
        lines.append(f"  and {count - _MOST_LINES} more")
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
