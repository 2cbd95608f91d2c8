"""Sizes and groups that differ between two moments, against the simulator's own offsets."""

from __future__ import annotations

import msgspec

from streaming.history.capsules.saving import Recorded
from streaming.history.differences.amount_changes import amounts
from streaming.history.differences.compared import differences_of
from streaming.history.differences.text import text
from tests.history.recorded import INTERVAL_MS, RecordedPast, at, message
from tests.simulator.incidents import IncidentShard
from tests.simulator.shard import RECORD_BYTES, Shape
from twin.proposals import PROPOSALS

SHAPE = Shape(topics=2, partitions=2, brokers=4, cold_share=0.0, groups=2)


def test_topics_brokers_and_groups_differ_as_the_simulators_offsets_do():
    shard, messages, ends, local = IncidentShard(SHAPE), [], [], []
    for cycle in range(4):
        shard.traffic(INTERVAL_MS)
        messages.append((0, message(shard.observe(at(cycle)))))
        ends.append(shard._truth.end[:, 0].copy())
        local.append((shard._truth.end - shard._truth.local).sum())
    past = RecordedPast(Recorded("sim", 1, messages, [], tuple(PROPOSALS)))
    found = differences_of(past.view(at(0)), past.view(at(3)), 100)
    grown = {each.topic: each.records_appended for each in found.topic_sizes}
    rows = shard._truth.topic
    for number, (name, _) in enumerate(shard.topics):
        assert grown[name] == (ends[3] - ends[0])[rows == number].sum() > 0
    sizes = [each.local_log_bytes for each in found.topic_sizes if each.local_log_bytes]
    changed = sum(each.after - each.before for each in sizes)
    assert changed == (local[3] - local[0]) * RECORD_BYTES
    brokers = sum(e.local_log_bytes.after - e.local_log_bytes.before for e in found.broker_sizes)
    assert brokers == changed
    assert found.sizes_not_compared == 0
    said = "\n".join(text(msgspec.to_builtins(found)).lines)
    assert f"topic {shard.topics[0][0]}: " in said
    assert differences_of(past.view(at(2)), past.view(at(2)), 100).groups == []


def test_what_is_unknown_at_one_of_the_moments_is_no_difference():
    shard, messages = IncidentShard(SHAPE), []
    shard.silence(1)  # it has never answered: the size of its replicas is unknown
    for cycle in range(3):
        shard.traffic(INTERVAL_MS)
        messages.append((0, message(shard.observe(at(cycle)))))
    past = RecordedPast(Recorded("sim", 1, messages, [], tuple(PROPOSALS)))
    before, after = (past.view(at(n)).view.states for n in (0, 2))
    found = amounts(before, after)
    assert 1 not in {each.broker for each in found.brokers}
    assert found.not_compared > 0
    with_silent = {name for row, (name, _) in enumerate(shard.topics)
                   if (shard._truth.broker[shard._truth.topic == row] == 1).any()}  # fmt: skip
    sized = {each.topic for each in found.topics if each.local_log_bytes is not None}
    assert not sized & with_silent


def test_groups_that_come_go_and_fall_behind_are_listed():
    few, more = (IncidentShard(Shape(topics=1, partitions=2, groups=n)) for n in (1, 3))
    one = RecordedPast(Recorded("sim", 1, [(0, message(few.observe(at(0))))], [], ()))
    two = RecordedPast(Recorded("sim", 1, [(0, message(more.observe(at(1))))], [], ()))
    found = amounts(one.view(at(0)).view.states, two.view(at(1)).view.states)
    assert [(each.group, each.change) for each in found.groups[:2]] == [
        ("group-1", "came"),
        ("group-2", "came"),
    ]
    back = amounts(two.view(at(1)).view.states, one.view(at(0)).view.states)
    assert {each.group for each in back.groups if each.change == "went"} == {"group-1", "group-2"}
