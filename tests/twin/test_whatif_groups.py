"""Whom a loss or a shorter local log makes read from remote storage."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import NOW_MS, Group, Log, Partition, a_state, group_offsets_frame, groups_frame
from tests.examples import examples
from tests.twin.test_after_loss import BROKERS, partitions
from twin.declarations.table import NO_BROKER, UNKNOWN
from twin.engine.shard_state import ShardState
from twin.questions import local_log, whatif
from twin.questions.whatif_groups import (
    HurtGroup,
    hurt_by_change,
    hurt_by_loss,
    together,
)
from twin.rules.groups.loss import GroupsIfLeaderLost
from twin.rules.groups.reads import GroupReads, ReadsFrom
from twin.step import step
from twin.tables.enums import ReplicaSelector

COLD = Partition(
    "cold",
    logs={1: Log(local_start=40, size_bytes=600), 2: Log(local_start=90, size_bytes=100),
          3: Log(size_bytes=1_000)},
)  # fmt: skip
ALONE = Partition("alone", replicas=(1,), log=Log(local_start=40, size_bytes=600))


def grouped(*groups: Group, **config: int) -> ShardState:
    parts = (ALONE, COLD)
    topics = {part.topic: {"remote_storage": 1} for part in parts}
    state = a_state(*parts, topics=topics, **config)
    return step(state, [groups_frame(groups), group_offsets_frame(groups)], NOW_MS)[0]


def hurt(state: ShardState, *brokers: int) -> list[HurtGroup]:
    return together([hurt_by_loss(state, brokers, whatif.lose(state, brokers))])


def test_losing_one_broker_is_what_the_state_predicts_of_its_groups():
    state = grouped(Group("g", [(COLD, 50)]), eligible_local_log_bytes=500)
    (harm,) = hurt(state, 1)
    by_rule = {"kafka": 400, "kip1303": 0, "kip501": 400}
    assert harm == HurtGroup("g", 0, 0, 0, 1, 40, 400, 0, by_rule)
    assert state[GroupsIfLeaderLost].remote_records.tolist() == [harm.remote_records]


def test_two_at_once_skip_the_successor_that_is_lost_as_well():
    assert hurt(grouped(Group("g", [(COLD, 50)])), 1, 2) == []


def test_a_group_whose_leader_stays_is_not_hurt():
    assert hurt(grouped(Group("g", [(COLD, 50)])), 3) == []


def test_a_group_in_the_rack_of_a_lost_follower_reads_from_the_leader():
    # Its follower 3 has all on disk; leader 1 begins at 40.
    state = grouped(Group("g", [(COLD, 30)], rack="az-c"), selector=ReplicaSelector.RACK_AWARE)
    (harm,) = hurt(state, 3)
    assert (harm.remote_records, harm.remote_bytes) == (10, 100)


def test_what_goes_offline_is_counted_and_comes_first():
    state = grouped(Group("f", [(COLD, 50)]), Group("g", [(ALONE, 50)]))
    assert [(h.group, h.offline, h.remote_records) for h in hurt(state, 1)] == [
        ("g", 1, 0),
        ("f", 0, 40),
    ]


def test_where_nobody_knows_where_it_reads_that_is_counted():
    state = grouped(Group("g", [(COLD, 50), (ALONE, 50)]), selector=ReplicaSelector.CUSTOM)
    harms = hurt_by_loss(state, [1], whatif.lose(state, [1]))
    assert [(h.remote, h.unknown, h.offline) for h in harms] == [(0, 1, 1)]


def test_groups_of_shards_add_up():
    one = hurt(grouped(Group("g", [(COLD, 50)])), 1)
    by_rule = {"kafka": 800, "kip1303": 800, "kip501": 800}
    assert together([one, one]) == [HurtGroup("g", 0, 0, 0, 2, 80, 800, 0, by_rule)]


def test_without_groups_nobody_is_hurt():
    assert hurt(grouped(), 1) == []


@pytest.mark.parametrize(("local_bytes", "records"), [(600, 0), (300, 20), (UNKNOWN, 0)])
def test_a_shorter_local_log_makes_a_group_read_remotely(local_bytes, records):
    """Of 60 records half are left: the log begins at 70 then."""
    state = grouped(Group("g", [(COLD, 50)]))
    then = local_log.with_local_retention(state, UNKNOWN, local_bytes)
    harms = together([hurt_by_change(state, then)])
    assert sum(each.remote_records for each in harms) == records


def test_a_group_below_the_start_of_the_next_leaders_log_is_named():
    """It reads nowhere then: its consumers are reset, as ``if_leader_lost`` says."""
    part = Partition("aiven", logs={2: Log(start=90_000, local_start=90_000, end=100_000),
                                    3: Log(end=100_000)}, log=Log(end=100_000))  # fmt: skip
    state = a_state(part)
    groups = [Group("g", [(part, 5)])]
    state, _ = step(state, [groups_frame(groups), group_offsets_frame(groups)], NOW_MS)
    assert state[GroupsIfLeaderLost].reads_from.tolist() == [ReadsFrom.NOWHERE]
    (harm,) = hurt(state, 1)
    assert (harm.group, harm.nowhere, harm.offline, harm.ahead, harm.remote) == ("g", 1, 0, 0, 0)
    assert hurt(state, 2) == []


LOGS = st.builds(
    lambda end, start, local: Log(end=end, start=start, local_start=max(start, local)),
    st.sampled_from((80, 95, 100)),
    st.sampled_from((0, 50, 90)),
    st.sampled_from((0, 60)),
)


@examples(400)
@given(
    part=partitions(0),
    logs=st.tuples(*[LOGS] * len(BROKERS)),
    away=st.sets(st.sampled_from(BROKERS), max_size=2),
    fenced=st.booleans(),
    offset=st.sampled_from((10, 55, 75, 97, 100)),
    configs=st.fixed_dictionaries({name: st.integers(0, 1) for name in (
        "remote_storage", "unclean_leader_election", "elr_enabled")}),
)  # fmt: skip
def test_a_group_s_forecast_and_the_sums_of_a_loss_agree_about_any_state(
    part: Partition, logs: tuple[Log, ...], away: set[int], fenced: bool, offset: int,
    configs: dict[str, int],
):  # fmt: skip
    part = replace(part, logs=dict(zip(BROKERS, logs, strict=True)))
    away -= {part.leader}
    state = a_state(
        part, brokers=BROKERS, silent=[*away], fenced=[*away] if fenced else (),
        selector=ReplicaSelector.LEADER, **configs,
    )  # fmt: skip
    groups = [Group("g", [(part, offset)])]
    state, _ = step(state, [groups_frame(groups), group_offsets_frame(groups)], NOW_MS)
    if part.leader == NO_BROKER:
        return
    now, then = state[GroupReads].reads_from[0], state[GroupsIfLeaderLost].reads_from[0]
    harms = hurt(state, part.leader)
    for name, where in (("offline", ReadsFrom.NOBODY), ("ahead", ReadsFrom.AHEAD),
                        ("nowhere", ReadsFrom.NOWHERE)):  # fmt: skip
        said = sum(getattr(harm, name) for harm in harms)
        assert said == int(then == where and now != where), (name, harms, then, now)
