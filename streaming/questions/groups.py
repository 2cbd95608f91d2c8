"""Groups of consumers in the answers to questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from streaming.questions.quantities import size_text
from twin.whatif_groups import GroupHarm

_MOST_LINES: Final = 5


def harm_data(harm: GroupHarm) -> dict[str, Any]:
    """As JSON has it."""
    return asdict(harm)


def changed_data(harm: GroupHarm) -> dict[str, Any]:
    """The same where no leader moves, so that no election rule matters."""
    return {name: v for name, v in asdict(harm).items() if name != "remote_bytes_kip1303"}


def harm_lines(hurt: Sequence[GroupHarm]) -> list[str]:
    """Sentences for a person: how many groups, and the worst of them."""
    if not hurt:
        return []
    total = sum(each.remote_bytes for each in hurt)
    lines = [f"{len(hurt)} groups of consumers are hurt; they read {size_text(total)} more from "
             "remote storage."]  # fmt: skip
    for each in hurt[:_MOST_LINES]:
        offline = f"{each.offline} partitions offline, " if each.offline else ""
        lines.append(
            f"  {each.group}: {offline}{each.remote_records} records "
            f"({size_text(each.remote_bytes)}) of {each.remote} partitions"
        )
    if len(hurt) > _MOST_LINES:
        lines.append(f"  and {len(hurt) - _MOST_LINES} more")
    return lines
