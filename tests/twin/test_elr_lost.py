"""Replicas that leave the ELR without joining the ISR: an event, since nothing else says it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.builders import NOW_MS, Partition, a_state, partitions_frame
from twin.step import step

HELD = Partition(isr=(1,), elr=(2, 3))


def texts(before: Partition, after: Partition) -> list[str]:
    state = a_state(before, elr_enabled=1, min_insync_replicas=2)
    _, changes = step(state, [partitions_frame([after], NOW_MS + 5_000)], NOW_MS + 5_000)
    return [each.text for each in changes if each.kind == "elr_lost"]


@pytest.mark.parametrize(
    ("elr", "who"), [((), "replicas 2, 3"), ((2,), "replica 3")], ids=["cleared", "crashed"]
)
def test_a_replica_that_is_no_longer_eligible_is_an_event(elr: tuple[int, ...], who: str):
    assert texts(HELD, replace(HELD, elr=elr)) == [
        f"t-0: {who} left the ELR without being in sync: the broker crashed, or "
        "min.insync.replicas was changed"
    ]


@pytest.mark.parametrize(
    "changed",
    [
        {"isr": (1, 2), "elr": ()},  # the ELR is no longer needed
        {"isr": (2,), "elr": (3,), "leader": 2, "epoch": 2},
        {"replicas": (1, 2), "elr": (2,)},
    ],
)
def test_a_member_that_leads_or_was_taken_away_is_none(changed):
    assert texts(HELD, replace(HELD, **changed)) == []
