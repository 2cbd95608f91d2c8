"""When a risk opens and closes."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import NOW_MS, Log, Partition, a_fleet, brokers_frame, replicas_frame
from twin import fleet as fleets
from twin.fleet import Fleet
from twin.rules.risks import BY_NAME, RULES, Risk
from twin.step import step

INTERVAL_MS = 5_000
MIB = 1 << 20
THIN_NEXT = Partition(logs={2: Log(size_bytes=1)}, log=Log(size_bytes=2 * MIB))
WARM_NEXT = Partition(log=Log(size_bytes=2 * MIB))


def cycles(fleet: Fleet, *parts: Partition) -> tuple[Fleet, list[str]]:
    """One cycle a partition given, and what was told of risks."""
    told = []
    for part in parts:
        at_ms = fleet.observed_at_ms + INTERVAL_MS
        fleet, changes = step(fleet, [replicas_frame([part], at_ms)], at_ms)
        told += [f"{c.kind}/{c.detail}" for c in changes if c.kind.startswith("risk_")]
    return fleet, told


def test_a_risk_without_a_wait_is_open_at_once():
    assert a_fleet(Partition(leader=-1)).risks[0] & Risk.OFFLINE


def test_a_risk_that_no_longer_holds_stays_open_for_its_time_and_is_told_closed_once():
    thin = a_fleet(THIN_NEXT, eligible_local_log_bytes=MIB)
    assert BY_NAME["next_leader_thin"].close_after_ms == 2 * INTERVAL_MS
    grown, told = cycles(thin, WARM_NEXT, WARM_NEXT)
    assert (grown.risks[0] & Risk.NEXT_LEADER_THIN, told) == (Risk.NEXT_LEADER_THIN, [])
    grown, told = cycles(grown, WARM_NEXT, WARM_NEXT)
    assert (int(grown.risks[0]), told) == (0, ["risk_closed/next_leader_thin"])
    assert len(grown.pending) == 0


def test_a_condition_that_flickers_is_told_once():
    thin = a_fleet(THIN_NEXT, eligible_local_log_bytes=MIB)
    fleet, told = cycles(thin, *[WARM_NEXT, THIN_NEXT] * 6)
    assert (fleet.risks[0] & Risk.NEXT_LEADER_THIN, told) == (Risk.NEXT_LEADER_THIN, [])


def test_a_risk_opens_only_when_it_has_held_for_its_time():
    cold = a_fleet(Partition(log=Log(end=50, local_start=50, size_bytes=0, started_ms=-1)),
                   eligible_local_log_bytes=MIB,
                   topics={"t": {"remote_storage": 1, "local_retention_bytes": 10}})  # fmt: skip
    rule = BY_NAME["eligibility_unreachable"]
    needed = rule.open_after_ms // INTERVAL_MS
    same = Partition(log=Log(end=50, local_start=50, size_bytes=0, started_ms=-1))
    fleet, told = cycles(cold, *[same] * (needed - 1))
    assert (fleet.risks_seen[0] & rule.risk, fleet.risks[0] & rule.risk) == (rule.risk, 0)
    assert len(fleet.pending) == 1
    fleet, told = cycles(fleet, same)
    assert (fleet.risks[0] & rule.risk, told) == (rule.risk, [f"risk_opened/{rule.name}"])


def test_what_waits_is_part_of_the_state():
    waiting, _ = cycles(a_fleet(THIN_NEXT, eligible_local_log_bytes=MIB), WARM_NEXT)
    assert len(waiting.pending) == 1
    again = fleets.decode(fleets.encode(waiting))
    assert cycles(again, WARM_NEXT, WARM_NEXT)[1] == ["risk_closed/next_leader_thin"]


@settings(max_examples=40)
@given(
    thin=st.lists(st.booleans(), min_size=2, max_size=8),
    pause=st.lists(st.integers(1, 9_000), min_size=8, max_size=8),
)
def test_a_risk_is_what_an_independent_count_of_its_time_says(thin, pause):
    """Against the plain reading: toggle once the condition has differed for the time."""
    fleet = a_fleet(THIN_NEXT, eligible_local_log_bytes=MIB)
    rule = BY_NAME["next_leader_thin"]
    is_open, since, at_ms = True, None, NOW_MS
    for holds, wait_ms in zip(thin, pause, strict=False):
        at_ms += wait_ms
        part = THIN_NEXT if holds else WARM_NEXT
        # In two steps of one cycle: what counts is how the cycle ends.
        fleet, _ = step(fleet, [brokers_frame(at_ms=at_ms)], at_ms)
        fleet, _ = step(fleet, [replicas_frame([part], at_ms)], at_ms)
        if holds == is_open:
            since = None
        else:
            since = at_ms if since is None else since
            limit = rule.open_after_ms if holds else rule.close_after_ms
            if at_ms - since >= limit:
                is_open, since = holds, None
        assert bool(fleet.risks[0] & rule.risk) == is_open


def test_every_rule_says_what_a_person_needs():
    assert [rule.risk for rule in RULES] == sorted(Risk)
    for rule in RULES:
        assert rule.sentence
        assert rule.source
        assert min(rule.open_after_ms, rule.close_after_ms) >= 0
    assert np.array([rule.risk for rule in RULES]).dtype == np.int64
