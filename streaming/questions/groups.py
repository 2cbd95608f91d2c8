"""Groups of consumers in the answers to questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from streaming.runtime.quantities import size_text
from twin.arrays.plain import counted

_MOST_LINES: Final = 5


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
