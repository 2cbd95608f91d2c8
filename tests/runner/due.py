"""Which groups are due, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.runner.declared import Group
from tests.runner.history import Change
from twin.arrays.plain import counted


@dataclass(frozen=True, slots=True)
class Due:
    """A group that is played.

    Attributes:
        group: its name.
        changed: files that it depends on and that have changed, sorted; empty if it is its turn.
        why: one line.
    """

    group: str
    changed: tuple[str, ...]
    why: str


def due(
    groups: Iterable[Group], turns: int, change: Change, behind: Mapping[str, frozenset[str]]
) -> list[Due]:
    """The groups that are due.

    Args:
        groups: all there are.
        turns: how many turns there are.
        change: what has changed. Where that is unknown, every group is due.
        behind: by group, files of Python that its tests import.
    """
    played = []
    for group in groups:
        if change.paths is None or change.number is None:
            played.append(Due(group.name, (), "what has changed is unknown"))
            continue
        changed = sorted(
            path
            for path in change.paths
            if path in behind[group.name] or path.startswith(group.paths)
        )
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            played.append(Due(group.name, tuple(changed), f"{changed[0]}{more}"))
        elif change.number % turns == group.turn:
            played.append(Due(group.name, (), "its turn"))
    return played


def lines(change: Change, turns: int, played: Iterable[Due], groups: Iterable[Group]) -> list[str]:
    """One line for the commit and one for each group: due or not, and why."""
    by_name = {each.group: each for each in played}
    if change.number is None or change.paths is None:
        text = ["no history of commits, so every group is played"]
    else:
        differ = counted(len(change.paths), "file differs", "files differ")
        text = [
            f"commit number {change.number}, turn {change.number % turns} of {turns}; {differ} "
            f"from {change.base[:9]}"
        ]
    for group in groups:
        each = by_name.get(group.name)
        text.append(f"  {group.name:<10} {'plays: ' + each.why if each else 'not due'}")
    return text
