"""Which partitions a person should worry about, and when a risk opens and closes."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import NOW_MS, Log, Partition, a_state, brokers_frame, empty, replicas_frame
from tests.examples import examples
from tests.reading import conditions, open_risks
from twin.builtin import CATALOG
from twin.declarations.declare import Risk
from twin.engine import codec
from twin.engine.risks import OpenRisks, RiskStates
from twin.engine.shard_state import ShardState
from twin.step import step

INTERVAL_MS = 5_000
MIB = 1 << 20
WARM = Log(size_bytes=2 * MIB)
COLD = Log(local_start=1, size_bytes=10)
COLD_NEXT = Partition(logs={2: Log(local_start=1, size_bytes=1)}, log=WARM)
WARM_NEXT = Partition(log=WARM)


def risks(part: Partition, **cluster: int) -> set[str]:
    return open_risks(a_state(part, **cluster))


def declared(name: str) -> Risk:
    return next(risk for risk in CATALOG.risks if risk.name == name)


def cycles(state: ShardState, *parts: Partition) -> tuple[ShardState, list[str]]:
    """One cycle a partition given, and the events of risks."""
    events = []
    for part in parts:
        at_ms = state.observed_at_ms + INTERVAL_MS
        state, changes = step(state, [replicas_frame([part], at_ms)], at_ms)
        events += [f"{c.kind}/{c.detail}" for c in changes if c.kind.startswith("risk_")]
    return state, events


# ---------------------------------------------------------------- conditions


def test_a_healthy_partition_has_none():
    assert risks(Partition(), min_insync_replicas=2) == set()


def test_a_partition_without_a_leader_is_offline():
    assert "partition_offline" in risks(Partition(leader=-1))


def test_a_single_replica_has_no_risk_and_a_pair_that_lost_one_has_no_clean_successor():
    assert risks(Partition(replicas=(1,))) == set()
    assert risks(Partition(replicas=(1, 2), isr=(1,))) >= {"no_clean_successor"}


def test_an_eligible_leader_replica_is_a_clean_successor():
    part = Partition(replicas=(1, 2), isr=(1,), elr=(2,))
    assert "no_clean_successor" not in risks(part, elr_enabled=1, min_insync_replicas=2)


@pytest.mark.parametrize(
    ("isr", "expected"),
    [
        ((1, 2, 3), set()),
        ((1, 2), {"at_min_isr"}),
        ((1,), {"under_min_isr", "no_clean_successor"}),
    ],
)
def test_min_isr_is_a_boundary(isr, expected):
    assert risks(Partition(isr=isr), min_insync_replicas=2) == expected


def test_a_partition_needs_no_more_replicas_in_sync_than_it_has():
    """As after partition 0 of a topic of single replicas was moved to two brokers."""
    moved, single = Partition(number=0, replicas=(1, 2)), Partition(number=1, replicas=(3,))
    state = a_state(moved, single, min_insync_replicas=2)
    assert "under_min_isr" not in open_risks(state, row=1)


def test_a_first_partition_of_one_replica_hides_no_other_that_is_short():
    first, short = Partition(number=0, replicas=(1,)), Partition(number=1, isr=(1, 2))
    state = a_state(first, short, min_insync_replicas=3)
    assert "under_min_isr" in open_risks(state, row=1)


@pytest.mark.parametrize("isr", [(), (1,)])
def test_a_partition_without_a_leader_refuses_nobody(isr):
    """As a single replica whose broker restarts: its ISR is empty where it is in the ELR."""
    part = Partition(replicas=(1,), isr=isr, leader=-1)
    assert risks(part, min_insync_replicas=1) == {"partition_offline"}
    two = Partition(replicas=(1, 2), isr=isr, leader=-1)
    assert risks(two, min_insync_replicas=1) == {"partition_offline"}


def test_being_at_min_isr_by_design_is_no_risk():
    assert risks(Partition(replicas=(1, 2)), min_insync_replicas=2) == set()


def test_a_replica_that_a_reassignment_adds_is_not_missing():
    adding = Partition(replicas=(3, 1, 2), leader=1, isr=(1, 2), adding=(3,))
    assert risks(adding, min_insync_replicas=2) == set()


def test_a_cold_leader_and_a_cold_next_leader_are_two_risks():
    cold_leader = Partition(logs={1: COLD}, log=WARM)
    cold_next = Partition(logs={2: COLD}, log=WARM)
    assert risks(cold_leader, eligible_local_log_bytes=MIB) == {"leader_cold"}
    assert risks(cold_next, eligible_local_log_bytes=MIB) == {"next_leader_cold"}


def test_a_partition_that_no_listing_described_yet_is_not_judged():
    state, _ = step(empty(), [replicas_frame([Partition()])], NOW_MS)
    assert state.partitions == 1
    assert open_risks(state) == set()


# ---------------------------------------------------------------- when they open and close


def test_a_risk_without_a_wait_is_open_at_once():
    assert "partition_offline" in open_risks(a_state(Partition(leader=-1)))


def test_a_risk_whose_condition_is_gone_stays_open_for_its_time_and_is_closed_once():
    cold = a_state(COLD_NEXT, eligible_local_log_bytes=MIB)
    assert declared("next_leader_cold").close_after_ms == 2 * INTERVAL_MS
    state, events = cycles(cold, WARM_NEXT, WARM_NEXT)
    assert (open_risks(state), events) == ({"next_leader_cold"}, [])
    state, events = cycles(state, WARM_NEXT, WARM_NEXT)
    assert (open_risks(state), events) == (set(), ["risk_closed/next_leader_cold"])
    assert len(state[RiskStates]) == 0


def test_a_risk_that_is_closed_is_named_in_the_event():
    state, _ = cycles(a_state(COLD_NEXT, eligible_local_log_bytes=MIB), WARM_NEXT, WARM_NEXT)
    at_ms = state.observed_at_ms + INTERVAL_MS
    _, changes = step(state, [replicas_frame([WARM_NEXT], at_ms)], at_ms)
    texts = [each.text for each in changes if each.kind == "risk_closed"]
    assert texts == ["t-0: the risk next_leader_cold has closed"]


def test_a_condition_that_flickers_opens_its_risk_once():
    cold = a_state(COLD_NEXT, eligible_local_log_bytes=MIB)
    state, events = cycles(cold, *[WARM_NEXT, COLD_NEXT] * 6)
    assert (open_risks(state), events) == ({"next_leader_cold"}, [])


def test_a_risk_opens_only_when_it_has_held_for_its_time():
    part = Partition(log=Log(end=50, local_start=50, size_bytes=0, started_ms=-1))
    cold = a_state(part, eligible_local_log_bytes=MIB,
                   topics={"t": {"remote_storage": 1, "local_retention_bytes": 10}})  # fmt: skip
    risk = declared("eligibility_unreachable")
    needed = risk.open_after_ms // INTERVAL_MS
    state, _ = cycles(cold, *[part] * (needed - 1))
    assert risk.name in conditions(state)
    assert risk.name not in open_risks(state)
    assert len(waiting(state)) == 1
    state, events = cycles(state, part)
    assert risk.name in open_risks(state)
    assert events == [f"risk_opened/{risk.name}"]


def test_a_running_timer_is_part_of_the_state():
    state, _ = cycles(a_state(COLD_NEXT, eligible_local_log_bytes=MIB), WARM_NEXT)
    assert len(waiting(state)) == 1
    again = codec.decode(codec.encode(state), CATALOG).state
    assert cycles(again, WARM_NEXT, WARM_NEXT)[1] == ["risk_closed/next_leader_cold"]


def waiting(state: ShardState) -> RiskStates:
    """The risks that wait to be opened or closed."""
    states = state[RiskStates]
    return states.pick(states.since_ms >= 0)


@examples(40)
@given(
    cold=st.lists(st.booleans(), min_size=2, max_size=8),
    pause=st.lists(st.integers(1, 9_000), min_size=8, max_size=8),
)
def test_a_risk_is_what_an_independent_count_of_its_time_says(cold, pause):
    """Against the plain reading: toggle once the condition has differed for the time."""
    state = a_state(COLD_NEXT, eligible_local_log_bytes=MIB)
    risk = declared("next_leader_cold")
    is_open, since, at_ms = True, None, NOW_MS
    for holds, wait_ms in zip(cold, pause, strict=False):
        at_ms += wait_ms
        part = COLD_NEXT if holds else WARM_NEXT
        # In two steps of one cycle: what counts is how the cycle ends.
        state, _ = step(state, [brokers_frame(at_ms=at_ms)], at_ms)
        state, _ = step(state, [replicas_frame([part], at_ms)], at_ms)
        if holds == is_open:
            since = None
        else:
            since = at_ms if since is None else since
            limit = risk.open_after_ms if holds else risk.close_after_ms
            if at_ms - since >= limit:
                is_open, since = holds, None
        assert (risk.name in open_risks(state)) == is_open


# ---------------------------------------------------------------- declarations


def test_every_risk_says_what_a_person_needs():
    for risk in CATALOG.risks:
        assert risk.sentence
        assert risk.source
        assert min(risk.open_after_ms, risk.close_after_ms) >= 0


def test_risks_have_a_rank_of_their_own_and_are_listed_by_it():
    ranks = [risk.rank for risk in CATALOG.risks]
    assert all(one < other for one, other in itertools.pairwise(ranks))


def test_every_risk_has_a_bit_that_is_not_the_sign():
    highest = np.array([1 << (len(CATALOG.risks) - 1)], OpenRisks.columns[0].dtype)
    assert highest[0] > 0
