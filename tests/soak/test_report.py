"""The report of a soak: what makes it fail."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from tests.soak.judge import Comparison, NoteResult, own_record
from tests.soak.memory import JUDGED_FROM_SAMPLES
from tests.soak.past import PastResult
from tests.soak.record import Prediction
from tests.soak.report import Report

MIB = 1 << 20


def report(**other: Any) -> Report:
    """A soak without objections, but for what is named."""
    row = Prediction("t", 0, 1, "loss", "right", "", 1, 2, 2)
    values: dict[str, Any] = {
        "minutes": 30.0,
        "seed": 1,
        "faults": Counter(killed=1),
        "own": own_record([row]),
        "counted": 1,
        "cold_elections": 0,
        "comparison": Comparison(1, 1, 1, [], [], []),
        "notes": NoteResult(right=1),
        "memory": {"exporter": samples(100)},
        "restarts": 0,
        "misses": [],
        "past": PastResult(equal=300, ends=9_000),
    }
    return Report(**(values | other))


def samples(last_mib: int, count: int = JUDGED_FROM_SAMPLES) -> Sequence[int]:
    third = count // 3
    return [100 * MIB] * (count - third) + [last_mib * MIB] * third


def test_a_soak_in_which_everything_agrees_is_passed() -> None:
    assert not report().objections()


@pytest.mark.parametrize(
    ("other", "objection"),
    [
        ({"counted": 2}, "own record: the counters rose by 2, the API has 1"),
        ({"misses": ["nobody says that"]}, "not said: nobody says that"),
        ({"past": PastResult(unknown=300)}, "the archive: it answered about no moment"),
        (
            {"past": PastResult(equal=300, gaps=2)},
            "the archive: no moment of its gaps is unknown, or was filled",
        ),
        ({"past": PastResult(equal=299, wrong=["3:00: leader"])}, "the archive: 3:00: leader"),
        ({"restarts": 1}, "programs: 1 of them ended and were started again"),
        ({"notes": NoteResult()}, "noted predictions: none came true"),
        ({"own": own_record([]), "counted": 0}, "own record: no leader change was predicted right"),
        (
            {"comparison": Comparison(1, 1, 0, [], [], [])},
            "Kafka's log: 1 of 1 records are of no change",
        ),
        ({"memory": {"exporter": samples(116)}}, "memory: exporter grew from 100 to 116 MiB"),
    ],
)
def test_each_part_can_object(other: dict[str, Any], objection: str) -> None:
    assert report(**other).objections() == [objection]


def test_memory_of_less_than_half_an_hour_is_shown_and_not_judged() -> None:
    short = report(memory={"exporter": samples(200, JUDGED_FROM_SAMPLES - 1)})
    assert not short.objections()
    assert "+100.0%" in short.text()


def test_the_json_line_has_all_that_the_table_has() -> None:
    values = json.loads(report().json())
    assert values["results"] == {"right": 1}
    assert values["kafka"]["leader_changes"] == 1
    assert values["memory_mib"]["exporter"][0] == 100
    assert values["objections"] == []
