"""Observations change a state by the laws of ``twin.ingest``: one test for each law."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import (
    NOW_MS,
    Group,
    Log,
    Partition,
    a_state,
    brokers_frame,
    configs_frame,
    empty,
    epoch_ends_frame,
    group_offsets_frame,
    groups_frame,
    logged_unclean_election_frame,
    partitions_frame,
    problems_frame,
    replicas_frame,
    truncated_logs_frame,
)
from tests.cycles import listed_frames
from tests.examples import examples
from tests.log_dir_frames import Directory, log_dirs_frame, replica_dirs_frame
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.declarations.table import NO_BROKER, UNKNOWN, PartitionTable, ReplicaTable
from twin.engine import codec
from twin.engine.frames import Frame, FrameHeader, InvalidFrame, decode, encode_parts
from twin.engine.merge import merge
from twin.engine.shard_state import ShardState
from twin.rules.partitions.leaders import Roles
from twin.step import step
from twin.tables.state import (
    Assignment,
    Brokers,
    Configs,
    PartitionIndex,
    Partitions,
    Replicas,
    Topics,
)

LATER_MS = NOW_MS + 5_000


def after(state: ShardState, *frames: Frame) -> ShardState:
    return step(state, frames, max(f.header.observed_at_ms for f in frames))[0]


def names(state: ShardState) -> list[str]:
    numbers = state[PartitionIndex].partition
    return [f"{t}-{p}" for t, p in zip(state.topic_names(), numbers, strict=True)]


def decoded(message: bytes) -> ShardState:
    return codec.decode(message, CATALOG).state


def same(one: ShardState, other: ShardState) -> bool:
    return codec.encode(one) == codec.encode(other)


# ---------------------------------------------------------------- one behaviour at a time


def test_a_repeated_frame_changes_nothing():
    state = a_state()
    for frame in (*listed_frames([Partition()]), brokers_frame()):
        again, changes = step(state, [frame], NOW_MS)
        assert same(again, state)
        assert changes == []


def test_a_late_frame_changes_nothing():
    state = a_state(Partition(epoch=3), at_ms=LATER_MS)
    late = Partition(epoch=9, leader=2, log=Log(end=9_999))
    for frame in (*listed_frames([late]), brokers_frame([7])):
        assert step(state, [frame], LATER_MS) == (state, [])


def test_a_stale_leader_epoch_does_not_move_the_leader_back():
    """A resumed leader answers from its stale state for up to 100 ms (measured)."""
    state = a_state(Partition(leader=2, epoch=8))
    state = after(state, partitions_frame([Partition(leader=1, epoch=7)], LATER_MS))
    assert (state[Partitions].leader[0], state[Partitions].leader_epoch[0]) == (2, 8)


def test_a_partition_that_was_listed_with_a_stale_epoch_is_still_listed():
    state = a_state(Partition(epoch=8))
    state = after(state, partitions_frame([Partition(epoch=7)], LATER_MS))
    assert names(state) == ["t-0"]


def test_of_two_answers_in_one_cycle_the_higher_leader_epoch_wins():
    old, new = Partition(leader=1, epoch=7), Partition(leader=2, epoch=8)
    for order in ((old, new), (new, old)):
        state = empty()
        for part in order:
            state = after(state, partitions_frame([part]))
        assert state[Partitions].leader[0] == 2


def test_a_recreated_topic_starts_anew():
    state = a_state(Partition(log=Log(end=500)))
    reborn = Partition(topic_id=b"another", epoch=0, leader=2)
    state = after(state, partitions_frame([reborn], LATER_MS))
    assert names(state) == ["t-0"]
    assert (state[Partitions].leader[0], state[Partitions].leader_epoch[0]) == (2, 0)
    assert (state[Replicas].log_end_offset == UNKNOWN).all()


def test_a_partition_disappears_when_a_whole_listing_no_longer_has_it():
    state = a_state(Partition("a"), Partition("b"))
    assert names(after(state, partitions_frame([Partition("b")], LATER_MS))) == ["b-0"]


def test_a_partition_stays_when_the_listing_was_not_complete():
    state = a_state(Partition("a"), Partition("b"))
    partial = partitions_frame([Partition("b")], LATER_MS, complete=False)
    assert names(after(state, partial)) == ["a-0", "b-0"]


def test_a_partition_stays_until_every_part_of_the_listing_is_there():
    state = a_state(Partition("a"), Partition("b"))
    first = partitions_frame([Partition("b")], LATER_MS, part=0, parts=2)
    second = partitions_frame([Partition("c")], LATER_MS, part=1, parts=2)
    assert names(halfway := after(state, first)) == ["a-0", "b-0"]
    assert names(after(halfway, first)) == ["a-0", "b-0"]
    assert names(after(halfway, second)) == ["b-0", "c-0"]


def test_zero_topics_leave_an_empty_state():
    state = after(a_state(), partitions_frame([], LATER_MS))
    assert (state.partitions, len(state[Topics].topic)) == (0, 0)
    assert same(decoded(codec.encode(state)), state)


def test_a_silent_broker_leaves_its_rows_ageing_not_zero():
    state = a_state(Partition(replicas=(1, 2), log=Log(end=70)))
    silent = Partition(replicas=(1, 2), log=Log(end=90), silent=(2,))
    state = after(
        state,
        *listed_frames([silent], LATER_MS),
        brokers_frame([1, 2], LATER_MS, silent=[2]),
    )
    assert state[Replicas].log_end_offset[0].tolist() == [90, 70]
    assert state[Replicas].sampled_at_ms[0].tolist() == [LATER_MS, NOW_MS]
    assert state[Brokers].answered.tolist() == [True, False]
    assert state[Brokers].answered_at_ms.tolist() == [LATER_MS, NOW_MS]


def test_an_error_of_a_replica_is_noted_and_its_last_answer_ages():
    state = a_state(Partition(replicas=(1,), log=Log(end=70)))
    failed = Partition(replicas=(1,), log=Log(end=UNKNOWN, local_start=UNKNOWN, error=56))
    state = after(state, replicas_frame([failed], LATER_MS))
    assert (state[Replicas].log_end_offset[0, 0], state[Replicas].error_code[0, 0]) == (70, 56)
    assert state[Replicas].sampled_at_ms[0, 0] == NOW_MS


def test_a_size_that_was_not_reported_stays_while_the_local_start_does():
    state = a_state(Partition(replicas=(1,), log=Log(size_bytes=700)))
    for start, expected in ((0, 700), (10, UNKNOWN)):
        log = Log(size_bytes=UNKNOWN, local_start=start)
        later = after(state, replicas_frame([Partition(replicas=(1,), log=log)], LATER_MS))
        assert later[Replicas].local_log_bytes[0, 0] == expected


def test_a_reassigned_partition_keeps_what_is_known_of_each_replica():
    logs = {1: Log(end=11), 2: Log(end=22)}
    state = a_state(Partition(replicas=(1, 2), logs=logs))
    state = after(state, partitions_frame([Partition(replicas=(3, 2, 1), epoch=2)], LATER_MS))
    assert state[Assignment].broker[0].tolist() == [3, 2, 1]
    assert state[Replicas].log_end_offset[0].tolist() == [UNKNOWN, 22, 11]


def test_a_replica_that_answers_before_its_listing_has_its_slot_when_the_listing_comes():
    state = a_state(Partition(replicas=(1, 2)))
    grown = Partition(replicas=(3, 1, 2), logs={3: Log(end=33)}, epoch=2)
    early = after(state, replicas_frame([grown], LATER_MS))
    assert not early[Roles].is_assigned[0, early[Assignment].broker[0] == 3].any()
    listed = after(early, partitions_frame([grown], LATER_MS))
    assert listed[Assignment].broker[0, :3].tolist() == [3, 1, 2]
    assert listed[Replicas].log_end_offset[0, 0] == 33


def test_configs_of_topics_that_are_gone_go_in_the_next_cycle_but_one():
    state = a_state(Partition("a"), Partition("b"), topics={"a": {}, "b": {}})
    for cycle in (1, 2):
        at_ms = NOW_MS + cycle * 5_000
        state = after(state, partitions_frame([Partition("b")], at_ms))
    assert state[Configs].topic.tolist() == ["", "b"]


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (partitions_frame([Partition(), Partition()]), "rows"),
        (replicas_frame([Partition(), Partition()]), "rows"),
        (brokers_frame([1, 1]), "rows"),
        (groups_frame([Group(), Group()]), "rows"),
        (group_offsets_frame([Group(offsets=[(Partition(), 1), (Partition(), 2)])]), "rows"),
        (partitions_frame([Partition(replicas=(1, 1))]), "rows"),
        (partitions_frame([Partition(replicas=(-4,))]), "rows"),
        (partitions_frame([Partition(number=-1)]), "rows"),
        (partitions_frame([Partition(), Partition(topic_id=b"other", number=1)]), "rows"),
        (brokers_frame(cluster="another"), "shard"),
        (brokers_frame(shards=2), "shard"),
        (brokers_frame(shard=1, shards=2), "shard"),
    ],
)
def test_a_frame_that_contradicts_itself_or_belongs_elsewhere_is_refused(frame, reason):
    with pytest.raises(InvalidFrame) as refusal:
        merge(empty(), frame)
    assert refusal.value.reason == reason


def test_a_state_is_no_observation():
    of_a_state = decode(codec.encode(a_state()))
    assert of_a_state.frames == of_a_state.invalid == ()
    assert "state.per_partition" in of_a_state.unknown_kinds
    header = FrameHeader("state.listing", "c", 0, 1, NOW_MS, 0)
    with pytest.raises(InvalidFrame, match=r"nothing takes in frames of kind state\.listing"):
        merge(empty(), Frame(header, partitions_frame([]).rows))


# ---------------------------------------------------------------- for all inputs


def a_cycle(
    rng: random.Random,
    at_ms: int,
    epochs: dict[tuple[str, int], int],
    before: set[tuple[bytes, int]],
) -> list[Frame]:
    """Consistent frames of one cycle of a wild little cluster whose topics come and go."""
    parts = []
    for topic in rng.sample("abcd", rng.randint(0, 4)):
        topic_id = f"{topic}{rng.choice([1, 1, 1, 2])}".encode()
        for number in range(rng.randint(1, 3)):
            replicas = tuple(rng.sample(range(1, 6), rng.randint(1, 4)))
            key = (topic, number)
            epochs[key] = epochs.get(key, 0) + rng.choice([0, 0, 1])
            parts.append(
                Partition(
                    topic, number, replicas, topic_id=topic_id, epoch=epochs[key],
                    leader=rng.choice([*replicas, NO_BROKER]),
                    isr=tuple(b for b in replicas if rng.random() < 0.7),
                    silent=tuple(b for b in replicas if rng.random() < 0.2),
                    logs={b: Log(end=rng.randint(0, 50), local_start=rng.randint(0, 5),
                                 error=rng.choice([0, 0, 0, 3])) for b in replicas},
                )
            )  # fmt: skip
    parts.sort(key=lambda p: (p.topic, p.number))
    frames = [brokers_frame(range(1, 6), at_ms, silent=[rng.randint(1, 5)])]
    frames.append(configs_frame({p.topic: {} for p in parts}, at_ms, eligible_local_log_ms=10))
    split = rng.randint(1, 3)
    for i in range(split):
        frames.append(partitions_frame(parts[i::split], at_ms, part=i, parts=split))
        frames.append(replicas_frame(parts[i::split], at_ms))
    # Nobody asks about partitions that were not listed before.
    listed = [part for part in parts if (part.topic_id, part.number) in before]
    before.clear()
    before.update((part.topic_id, part.number) for part in parts)
    for part in rng.sample(listed, len(listed) // 2):
        frames.append(epoch_ends_frame(part, max(part.epoch - 1, 0), rng.randint(0, 50), at_ms))
        cut_ms, to_offset = at_ms - rng.randint(0, 5_000), rng.randint(0, 50)
        end = to_offset + rng.randint(1, 9)
        broker = rng.choice(part.replicas)
        frames.append(truncated_logs_frame(part, broker, end, to_offset, cut_ms))
        elected = rng.choice(part.replicas), rng.randint(0, part.epoch)
        frames.append(logged_unclean_election_frame(part, *elected, cut_ms))
    frames += frames_of_disks(rng, parts, at_ms)
    return [*frames, problems_of(rng, at_ms), *frames_of_groups(rng, parts, at_ms)]


def frames_of_disks(rng: random.Random, parts: list[Partition], at_ms: int) -> list[Frame]:
    """Directories in parts; replicas move between them, and not all of them are named."""
    disks = [Directory(b, n, usable=rng.randint(0, 9)) for b in range(1, 6) for n in range(3)]
    listed = [disk for disk in disks if rng.random() < 0.7]
    named = [(p, b, rng.randint(0, 2)) for p in parts for b in p.replicas if rng.random() < 0.5]
    return [
        *(log_dirs_frame(listed[i::2], at_ms, part=i, parts=2) for i in range(2)),
        replica_dirs_frame(named, at_ms),
    ]


def problems_of(rng: random.Random, at_ms: int) -> Frame:
    """Problems come and go."""
    possible = [("log dirs", 2, "Timeout", "late"), ("log dirs", 2, "Denied", "no"),
                ("topics", NO_BROKER, "Denied", "no")]  # fmt: skip
    listed = rng.sample(possible, rng.randint(0, 3))
    return problems_frame(listed, at_ms, complete=rng.random() < 0.7)


def frames_of_groups(rng: random.Random, parts: list[Partition], at_ms: int) -> list[Frame]:
    """Groups come and go; offsets of some cannot be read, and some brokers list none."""
    groups = [
        Group(
            name,
            [(part, rng.randint(0, 50)) for part in parts if rng.random() < 0.5],
            read_ms=rng.choice([UNKNOWN, at_ms - 1]),
            rack=rng.choice(["", "az-a", "az-b"]),
        )
        for name in rng.sample("wxyz", rng.randint(0, 4))
    ]
    split = rng.randint(1, 3)
    listing = {"parts": split, "complete": rng.random() < 0.7}
    read = [group for group in groups if group.read_ms != UNKNOWN]
    frames = [groups_frame(groups[i::split], at_ms, part=i, **listing) for i in range(split)]
    return frames + [group_offsets_frame(read[i::split], at_ms) for i in range(split)]


LOGGED_ONCE = {"truncated_logs", "logged_unclean_elections"}


@examples(150)
@given(seed=st.integers(0, 10**9), cycles=st.integers(1, 4))
def test_frames_of_one_cycle_commute_and_repeats_and_late_ones_change_nothing(seed, cycles):
    rng = random.Random(seed)
    epochs: dict[tuple[str, int], int] = {}
    whole = one_by_one = empty()
    before: set[tuple[bytes, int]] = set()
    past: list[Frame] = []
    for cycle in range(cycles):
        frames = a_cycle(rng, NOW_MS + cycle * 5_000, epochs, before)
        whole = after(whole, *frames)
        shuffled = [*frames, *rng.sample(frames, 2), *rng.sample(past, min(len(past), 3))]
        rng.shuffle(shuffled)
        for frame in shuffled:
            at_ms = max(frame.header.observed_at_ms, one_by_one.observed_at_ms)
            one_by_one, _ = step(one_by_one, [frame], at_ms)
        # A partition that was deleted and created again since has not seen the line before.
        past += [frame for frame in frames if frame.header.kind not in LOGGED_ONCE]
        assert same(whole, one_by_one)


@examples(30)
@given(seed=st.integers(0, 10**6), limit=st.integers(8_000, 20_000))
def test_a_listing_sent_in_parts_gives_the_same_as_one_sent_whole(seed, limit):
    shard = SimulatedShard(Shape(topics=3, partitions=40), seed)
    whole = parts = empty("sim")
    for frames in shard.run(3, NOW_MS):
        at_ms = frames[0].header.observed_at_ms
        whole = step(whole, frames, at_ms)[0]
        sent = [decode(m).frames[0] for f in frames for m in encode_parts(f, limit)]
        parts = step(parts, sent, at_ms)[0]
        assert same(whole, parts)


@examples(20)
@given(seed=st.integers(0, 10**6))
def test_a_state_survives_being_encoded_at_every_cycle(seed):
    shard = SimulatedShard(Shape(topics=2, partitions=5), seed)
    held = stored = empty("sim")
    for frames in shard.run(6, NOW_MS):
        at_ms = frames[0].header.observed_at_ms
        held, changes = step(held, frames, at_ms)
        again, changes_again = step(decoded(codec.encode(stored)), frames, at_ms)
        assert same(held, again)
        assert changes == changes_again
        stored = again


def test_a_large_state_is_sent_in_parts_that_together_hold_every_row():
    shard = SimulatedShard(Shape(topics=5, partitions=200))
    state = after(empty("sim"), *shard.observe(NOW_MS))
    messages = codec.encode_parts(state, 40_000)
    assert len(messages) > 1
    assert max(map(len, messages)) <= 40_000
    parts = [decoded(message) for message in messages]
    for table in CATALOG.stored:
        if issubclass(table, PartitionTable | ReplicaTable):
            for column in table.columns:
                joined = np.concatenate([getattr(part[table], column.name) for part in parts])
                assert np.array_equal(joined, getattr(state[table], column.name)), column.name


def test_the_same_seed_gives_the_same_frames():
    one, other = (SimulatedShard(Shape(), 7) for _ in range(2))
    for left, right in zip(one.run(5, NOW_MS), other.run(5, NOW_MS), strict=True):
        assert [f.rows for f in left] == [f.rows for f in right]
        assert [f.header for f in left] == [f.header for f in right]
    assert replace(left[0].header) == right[0].header
