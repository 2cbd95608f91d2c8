"""Messages of a shard in any order, twice, or lost: served is the state of one message, or said."""

from __future__ import annotations

import random
from functools import cache

import pytest

from streaming.bus.view import SnapshotStore
from tests.builders import NOW_MS
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.engine import codec, updates
from twin.engine.shard_state import ShardState
from twin.step import step

Message = tuple[bytes, bytes]  # key and value

CYCLES = 9
WHOLE_EVERY = 4


@cache
def written() -> tuple[list[ShardState], list[Message]]:
    """A shard after each cycle, and the message of each cycle as the query writes it."""
    shard = SimulatedShard(Shape(topics=2, partitions=6), cluster="c")
    state, states, messages = ShardState.empty(CATALOG, "c", 0, 1), [], []
    message_id = b""
    for cycle in range(CYCLES):
        at_ms = NOW_MS + cycle * 5_000
        shard.traffic(5_000)
        after, _ = step(state, shard.observe(at_ms), at_ms)
        number = cycle % WHOLE_EVERY
        value = updates.encode(state, after, message_id, number) if number else codec.encode(after)
        assert value is not None
        messages.append((f"c/0@{number}".encode() if number else b"c/0", value))
        message_id = updates.id_of([value])
        state = after
        states.append(after)
    return states, messages


@cache
def expected() -> dict[bytes, int]:
    """The cycle of each state, by its bytes."""
    return {codec.encode(state): cycle for cycle, state in enumerate(written()[0])}


def a_store() -> SnapshotStore:
    return SnapshotStore(CATALOG, "c", 1)


def cycle_served(store: SnapshotStore) -> int:
    """The cycle whose state is served, -1 for none; it is exactly the state of that cycle."""
    shards = store.publish().shards
    return expected()[codec.encode(shards[0].state)] if shards else -1


def read(*messages: Message) -> SnapshotStore:
    store = a_store()
    for message in messages:
        store.take_snapshot(*message)
    store.publish()
    return store


def test_updates_are_followed_from_cycle_to_cycle():
    store = a_store()
    for cycle, message in enumerate(written()[1]):
        assert store.take_snapshot(*message)
        assert cycle_served(store) == cycle
        assert store.view.shards_behind == 0


@pytest.mark.parametrize("seed", range(12))
def test_messages_in_any_order_and_twice_end_with_the_newest_state(seed):
    order = [*written()[1], *written()[1]]
    random.Random(seed).shuffle(order)
    store, newest = a_store(), -1
    for message in order:
        store.take_snapshot(*message)
        served = cycle_served(store)
        assert served >= newest, "never back to an older state"
        newest = served
    assert newest == CYCLES - 1
    assert store.view.shards_behind == 0


@pytest.mark.parametrize("lost", range(1, CYCLES - 1))
def test_after_a_lost_message_the_reader_says_so_until_the_next_whole_state(lost):
    messages = written()[1]
    store = a_store()
    for cycle, message in enumerate(messages):
        if cycle == lost:
            continue
        store.take_snapshot(*message)
        served = cycle_served(store)
        is_known = cycle < lost or cycle // WHOLE_EVERY > lost // WHOLE_EVERY
        if is_known:
            assert (served, store.view.shards_behind) == (cycle, 0)
        else:
            assert (served, store.view.shards_behind) == (lost - 1, 1)


def test_a_stale_state_that_lacks_a_message_says_what_it_waits_for():
    messages = written()[1]
    store = read(*messages[:1], *messages[2:3])
    why = store.view.why_not_up(NOW_MS + 120_000)
    assert "1 shard lacks a message and waits for the next whole state" in why
    assert "lacks" not in read(*messages[:2]).view.why_not_up(NOW_MS + 120_000)


@pytest.mark.parametrize("begin", range(CYCLES))
def test_a_reader_that_begins_anywhere_is_right_from_the_next_whole_state_on(begin):
    store = a_store()
    for cycle, message in enumerate(written()[1][begin:], begin):
        store.take_snapshot(*message)
        has_whole = cycle - cycle % WHOLE_EVERY >= begin
        assert cycle_served(store) == (cycle if has_whole else -1)


def test_a_compacted_topic_has_all_that_a_new_reader_needs():
    newest_of_key = dict(written()[1])
    for seed in range(6):
        messages = list(newest_of_key.items())
        random.Random(seed).shuffle(messages)
        assert cycle_served(read(*messages)) == CYCLES - 1


def test_a_whole_state_that_is_written_again_does_not_bring_the_reader_back():
    whole, update, *_ = written()[1]
    store = read(whole, update, whole)
    assert cycle_served(store) == 1
    store.take_snapshot(*written()[1][2])
    assert cycle_served(store) == 2


def test_the_size_of_a_state_is_that_of_its_whole_chain():
    messages = written()[1]
    store = a_store()
    for cycle, message in enumerate(messages):
        store.take_snapshot(*message)
        chain = messages[cycle - cycle % WHOLE_EVERY : cycle + 1]
        assert store.publish().state_bytes == sum(len(value) for _, value in chain)


def test_the_latency_is_that_of_the_newest_message_of_a_chain():
    store = a_store()
    for cycle, (key, value) in enumerate(written()[1][:3]):
        store.take_snapshot(key, value, NOW_MS + cycle * 5_000 + 900 - 300 * cycle)
    assert store.publish().end_to_end_latency_ms == 300


@pytest.mark.parametrize("key", [b"c/0", b"c/0@2", b"c/1@1", b"c/0/1"])
def test_an_update_under_a_key_that_is_not_its_own_is_refused(key):
    whole, (_, update), *_ = written()[1]
    store = read(whole)
    assert not store.take_snapshot(key, update)
    assert store.publish().snapshots_refused == {"key": 1}


def test_an_update_that_does_not_fit_is_refused_and_the_state_before_is_served():
    states, messages = written()
    whole, (key, _), *_ = messages
    shard = SimulatedShard(Shape(topics=2, partitions=7), cluster="c")
    one, _ = step(ShardState.empty(CATALOG, "c", 0, 1), shard.observe(NOW_MS), NOW_MS)
    later = NOW_MS + 5_000
    two, _ = step(one, shard.observe(later), later)
    other = updates.encode(one, two, updates.id_of([whole[1]]), 1)
    assert other is not None
    store = read(whole)
    assert not store.take_snapshot(key, other)
    assert store.publish().snapshots_refused == {"rows": 1}
    assert cycle_served(store) == 0
    for message in messages[WHOLE_EVERY:]:
        store.take_snapshot(*message)
    assert cycle_served(store) == len(states) - 1


def test_an_update_of_a_state_in_parts_continues_all_of_them():
    states, _ = written()
    parts = codec.encode_parts(states[0], len(codec.encode(states[0])) - 1)
    assert len(parts) > 1
    update = updates.encode(states[0], states[1], updates.id_of(parts), 1)
    assert update is not None
    keyed = [(b"c/0" if n == 0 else f"c/0/{n}".encode(), part) for n, part in enumerate(parts)]
    for messages in ([*keyed, (b"c/0@1", update)], [(b"c/0@1", update), *reversed(keyed)]):
        assert cycle_served(read(*messages)) == 1
