"""Which partitions a person should worry about."""

import pytest

from tests.builders import Log, Partition, a_fleet
from twin.rules.risks import Risk

MIB = 1 << 20
WARM = Log(size_bytes=2 * MIB)
THIN = Log(size_bytes=10)


def risks(part: Partition, **cluster: int) -> Risk:
    return Risk(int(a_fleet(part, **cluster).risks[0]))


def test_a_healthy_partition_has_none():
    assert risks(Partition(), min_insync_replicas=2) == Risk(0)


def test_a_partition_nobody_leads_is_offline():
    assert risks(Partition(leader=-1)) & Risk.OFFLINE


def test_a_single_replica_has_no_clean_successor():
    assert risks(Partition(replicas=(1,))) == Risk.NO_CLEAN_SUCCESSOR


def test_an_eligible_leader_replica_is_a_clean_successor():
    part = Partition(replicas=(1, 2), isr=(1,), elr=(2,))
    assert not risks(part, elr_enabled=1, min_insync_replicas=2) & Risk.NO_CLEAN_SUCCESSOR


@pytest.mark.parametrize(
    ("isr", "expected"),
    [
        ((1, 2, 3), Risk(0)),
        ((1, 2), Risk.AT_MIN_ISR),
        ((1,), Risk.UNDER_MIN_ISR | Risk.NO_CLEAN_SUCCESSOR),
    ],
)
def test_min_isr_is_a_boundary(isr, expected):
    assert risks(Partition(isr=isr), min_insync_replicas=2) == expected


def test_being_at_min_isr_by_design_is_no_risk():
    assert risks(Partition(replicas=(1, 2)), min_insync_replicas=2) == Risk(0)


def test_a_replica_that_a_reassignment_adds_is_not_missing():
    joining = Partition(replicas=(3, 1, 2), leader=1, isr=(1, 2), adding=(3,))
    assert risks(joining, min_insync_replicas=2) == Risk(0)


def test_a_thin_leader_and_a_thin_next_leader_are_two_risks():
    thin_leader = Partition(logs={1: THIN}, log=WARM)
    thin_next = Partition(logs={2: THIN}, log=WARM)
    assert risks(thin_leader, eligible_local_log_bytes=MIB) == Risk.LEADER_THIN
    assert risks(thin_next, eligible_local_log_bytes=MIB) == Risk.NEXT_LEADER_THIN


def test_what_no_listing_described_yet_is_not_judged():
    from tests.builders import NOW_MS, replicas_frame
    from twin import fleet as fleets
    from twin.step import step

    fleet, _ = step(fleets.empty("c", 0, 1), [replicas_frame([Partition()])], NOW_MS)
    assert len(fleet) == 1
    assert fleet.risks[0] == 0
