"""Losses that the exporter computes once for all questions about them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from streaming.bus.view import LOSSES_KEPT, SnapshotStore
from tests.builders import Partition, a_state
from twin.builtin import CATALOG
from twin.engine import codec
from twin.engine.shard_state import ShardState
from twin.questions import gate, whatif
from twin.questions.gate import Terms

STATE = a_state(
    Partition("orders", replicas=(1, 2, 3)),
    Partition("audit", replicas=(1,)),
    Partition("late", replicas=(3, 1, 2), isr=(3,)),
    Partition("other", replicas=(2, 3)),
)


def test_a_loss_is_computed_once_whoever_asks_and_however_it_is_said():
    view = _store(STATE).publish()
    with ThreadPoolExecutor() as threads:
        losses = list(threads.map(view.lose, [[1, 2], [2, 1], {1, 2}, (1, 2, 1)]))
    assert len({id(loss) for [loss] in losses}) == 1
    assert view.lose([1])[0] is not losses[0][0]


def test_a_new_snapshot_has_losses_of_its_own_and_other_shards_keep_theirs():
    store = _store(_of_two(0, Partition("a")), _of_two(1, Partition("b")))
    first, second = store.publish().lose([1])
    _take(store, _of_two(1, Partition("b", replicas=(2, 1))))
    again, changed = store.publish().lose([1])
    assert again is first
    assert (len(second.row), len(changed.row)) == (1, 0)


def test_losses_that_nobody_asks_for_any_more_are_let_go():
    view = _store(STATE).publish()
    losses = [view.lose([broker])[0] for broker in range(LOSSES_KEPT)]
    assert view.lose([0])[0] is losses[0]
    view.lose([LOSSES_KEPT])
    assert view.lose([0])[0] is losses[0]
    assert view.lose([1])[0] is not losses[1]


def test_the_gate_judges_alike_with_a_loss_that_is_known_already():
    for together in ([], [1], [2], [1, 3], [9]):
        loss = whatif.lose(STATE, together)
        for terms in (Terms(), Terms(margin=2)):
            with_loss = gate.reasons([STATE], together, terms, [loss])
            assert with_loss == gate.reasons([STATE], together, terms)


def _of_two(shard: int, *parts: Partition) -> ShardState:
    return replace(a_state(*parts), shard=shard, shards=2)


def _store(*states: ShardState) -> SnapshotStore:
    store = SnapshotStore(CATALOG, "c", states[0].shards)
    for state in states:
        _take(store, state)
    return store


def _take(store: SnapshotStore, state: ShardState) -> None:
    assert store.take_snapshot(f"c/{state.shard}".encode(), codec.encode(state))
