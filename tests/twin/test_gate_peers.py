"""The cases of docs/gate.md in which other gates answer differently: what ours answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.builders import Log, Partition, a_state
from tests.twin.test_gate import MIN_2, quorum
from twin.engine.shard_state import ShardState
from twin.questions import gate
from twin.questions.gate import UNKNOWN_REASONS, Terms
from twin.tables.state import ControllerQuorum

PAGE: Final = Path(__file__).resolve().parents[2] / "docs/gate.md"
WELL: Final = quorum(0, 0, 0)


def a_case(
    *parts: Partition, controllers: ControllerQuorum = WELL, fenced: Sequence[int] = (),
    silent: Sequence[int] = (), **configs: int,
) -> ShardState:  # fmt: skip
    return a_state(*parts, fenced=fenced, silent=silent, **configs).with_tables(controllers)


CASES: Final = {
    "1": (a_case(Partition(replicas=(1,))), [1]),
    "2": (a_case(Partition(replicas=(1, 2)), **MIN_2), [1]),
    "3": (a_case(Partition(replicas=(1, 2)), min_insync_replicas=1), [1]),
    "4": (a_case(Partition(isr=(1, 2)), min_insync_replicas=1), [1]),
    "5": (a_case(Partition(), Partition("u", replicas=(5, 4, 3)), fenced=(5,), **MIN_2), [1]),
    "6": (a_case(Partition(), silent=(3,), **MIN_2), [1]),
    "7": (a_case(Partition(isr=(1,), leader=-1), fenced=(1,), **MIN_2), [1]),
    "8": (
        a_case(
            Partition(logs={2: Log(local_start=1, size_bytes=1)}),
            eligible_local_log_bytes=9,
            **MIN_2,
        ),
        [1],
    ),
    "9": (a_case(Partition(), controllers=quorum(0, 0), **MIN_2), [1]),
    "10": (a_case(Partition(), controllers=quorum(0, 0, 3_000), **MIN_2), [1]),
    "11": (a_case(Partition(), **MIN_2), [1, 2]),
}


def table() -> dict[str, list[str]]:
    """The cells of each row of the page's table, by the number of the case."""
    rows = (line.strip("|").split("|") for line in PAGE.read_text().splitlines())
    return {cells[0].strip(): [c.strip() for c in cells] for cells in rows
            if re.fullmatch(r" \d+ ", cells[0])}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_page_says_what_the_gate_answers(case: str):
    state, together = CASES[case]
    against = gate.reasons([state], together, Terms())
    if not against:
        expected = "safe"
    else:
        kind = "unsafe" if against.keys() - UNKNOWN_REASONS else "unknown"
        expected = f"{kind}: " + ", ".join(f"`{reason.name.lower()}`" for reason in against)
    assert table()[case][2] == expected


def test_the_page_has_these_cases_and_no_other():
    assert list(table()) == list(CASES)
