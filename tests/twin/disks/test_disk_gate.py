"""A restart of a broker whose disk is full before it is back: it could not start again."""

from __future__ import annotations

import pytest

from tests.twin.disks.stage import MINUTES, PLAIN, Growing, cycles, one_shard, volumes
from twin.plans.roll import roll
from twin.questions import gate
from twin.questions.gate import Reason, Terms


def against(free_gb: float, *brokers: int, own_known: bool = True) -> gate.Names:
    state, own = one_shard(cycles([Growing()], volumes(free_gb), {"t": PLAIN}, MINUTES))
    return gate.reasons([state], brokers, Terms(), own=own if own_known else None)


def test_a_broker_whose_disk_is_full_in_a_quarter_of_an_hour_is_not_restarted():
    quarter_gb = (MINUTES[-1] + 900) / 1_000  # at 1 MB/s
    assert against(quarter_gb, 1)[Reason.FULL_DISK] == ["broker 1"]
    assert against(quarter_gb, 1, 2)[Reason.FULL_DISK] == ["broker 1", "broker 2"]


@pytest.mark.parametrize("hours", [1, 24])
def test_a_disk_that_lasts_until_the_broker_is_back_is_no_reason(hours: int):
    assert Reason.FULL_DISK not in against((MINUTES[-1] + hours * 3_600) / 1_000, 1)


def test_without_the_clusters_own_shard_nothing_is_said_of_disks():
    assert Reason.FULL_DISK not in against(3, 1, own_known=False)


def test_plan_roll_leaves_it_out():
    state, own = one_shard(cycles([Growing()], volumes(3), {"t": PLAIN}, MINUTES))
    plan = roll([state], [1, 2], Terms(), False, 1, own)
    assert not any(batch.brokers for batch in plan.batches)
