"""What a placement is exposed to, counted one loss at a time, and which swaps help."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Partition, a_state
from tests.examples import examples
from twin.declarations.table import KAFKA, UNKNOWN
from twin.plans.placement import Harm, Placement, placement, reach
from twin.plans.swaps import Swaps, SwapTerms, improving_steps
from twin.questions.contingencies import contingencies
from twin.questions.effects import counted_things
from twin.rules.brokers.racks import racks_of
from twin.tables.state import Brokers


def placed(*replicas: tuple[int, ...], racks: tuple[int, ...], least: int = 1) -> Placement:
    """Partitions on brokers 0, 1, ... of those racks."""
    width = max(map(len, replicas))
    place = np.full((len(replicas), width), UNKNOWN, np.int64)
    for row, each in enumerate(replicas):
        place[row, : len(each)] = each
    return Placement(place, np.full(len(place), least, np.int32), np.array(racks, np.int64))


def terms(of: Placement, **other: np.ndarray) -> SwapTerms:
    given = {
        "movable": np.ones(len(of.place), bool),
        "usable": np.ones(len(of.rack), bool),
        "leads": np.arange(of.place.shape[1]) == np.zeros((len(of.place), 1), int),
        "copied": np.ones(len(of.place)),
    }
    return SwapTerms(**{**given, **other})


def replicas_of(of: Placement) -> list[list[int]]:
    return [[b for b in each if b != UNKNOWN] for each in of.place.tolist()]


def harmed(of: Placement, lost: set[int]) -> list[Harm]:
    """What the loss of those brokers does to each partition, one by one."""
    found = []
    for each, least in zip(replicas_of(of), of.least.tolist(), strict=True):
        left = len(set(each) - lost)
        if left == len(each) or left >= least:
            found.append(Harm.NONE)
        else:
            found.append(Harm.UNDER_MIN_ISR if left else Harm.OFFLINE)
    return found


def counts(harms: list[list[Harm]]) -> tuple[int, int]:
    """Partitions that some of these losses takes under min ISR, and offline."""
    worst = [max(each) for each in zip(*harms, strict=True)] if harms else []
    return sum(h >= Harm.UNDER_MIN_ISR for h in worst), sum(h == Harm.OFFLINE for h in worst)


@st.composite
def placements(draw, most: int = 12) -> Placement:
    brokers = draw(st.integers(3, 7))
    racks = draw(st.lists(st.integers(UNKNOWN, 2), min_size=brokers, max_size=brokers))
    names = sorted({rack for rack in racks if rack != UNKNOWN})
    some = st.lists(st.integers(0, brokers - 1), min_size=1, max_size=4, unique=True)
    replicas = draw(st.lists(some.map(tuple), min_size=1, max_size=most))
    numbers = tuple(UNKNOWN if rack == UNKNOWN else names.index(rack) for rack in racks)
    return placed(*replicas, racks=numbers, least=draw(st.integers(1, 3)))


@examples(200)
@given(placements())
def test_reach_is_that_of_losing_one_after_the_other(of):
    brokers = range(len(of.rack))
    racks = [{b for b in brokers if of.rack[b] == k} for k in range(of.racks)]
    found = reach(of)
    assert found.by_one == counts([harmed(of, {b}) for b in brokers])
    nothing = [harmed(of, set())]
    assert found.by_rack == counts(nothing + [harmed(of, rack) for rack in racks])
    more = [harmed(of, rack | {b}) for rack in racks for b in brokers]
    # A partition on no rack suffers from the one more broker alone: that is ``by_one``.
    in_racks = [bool(set(each) & set().union(*racks)) for each in replicas_of(of)]
    only = [
        [h if has else Harm.NONE for h, has in zip(each, in_racks, strict=True)] for each in more
    ]
    assert found.by_rack_and_one == counts(nothing + only)

    together = 0
    worst = [0, 0]
    for a, b in combinations(brokers, 2):
        both, one, other = (harmed(of, lost) for lost in ({a, b}, {a}, {b}))
        new = [
            x == Harm.OFFLINE and Harm.OFFLINE not in (y, z)
            for x, y, z in zip(both, one, other, strict=True)
        ]
        together += any(new)
        worst = [max(worst[0], counts([both])[0]), max(worst[1], counts([both])[1])]
    assert (found.pairs_offline, found.worst_pair) == (together, tuple(worst))


def test_with_all_replicas_in_sync_the_numbers_are_those_of_the_contingencies():
    parts = [Partition(number=0, replicas=(1, 4)), Partition(number=1, replicas=(1, 2, 3)),
             Partition(number=2, replicas=(5,)), Partition(number=3, replicas=(4, 1, 2)),
             Partition(number=4, replicas=(2, 5))]  # fmt: skip
    state = a_state(*parts, min_insync_replicas=2)
    ids = np.sort(state[Brokers].broker)
    rack = racks_of(state[Brokers], ids)
    found = reach(placement([state], ids, rack))
    names = counted_things(state.catalog.election_rules)
    losses = contingencies([state], ids, rack)
    for number, name in enumerate(("under_min_isr", "offline")):
        row = names.index((KAFKA, name))
        pairs = losses.pairs(*np.triu_indices(len(ids), 1))
        assert found.worst_pair[number] == pairs[row].max()
    offline = names.index((KAFKA, "offline"))
    assert found.by_rack[1] == losses.rack[offline].sum() - losses.broker[offline][4] + 1
    assert found.by_one[1] == losses.broker[offline].sum() == 1


@examples(200)
@given(of=placements(30), most=st.integers(1, 12), data=st.data())
def test_no_step_makes_anything_worse_and_steps_move_only_what_may_move(of, most, data):
    allowed = st.lists(st.booleans(), min_size=len(of.place), max_size=len(of.place))
    usable = st.lists(st.booleans(), min_size=len(of.rack), max_size=len(of.rack))
    given = terms(
        of,
        movable=np.array(data.draw(allowed), bool),
        usable=np.array(data.draw(usable), bool),
        copied=np.where(data.draw(allowed), 5.0, np.nan),
    )
    then, steps = improving_steps(of, given, most)
    assert len(steps) <= most
    swapped, place = 0, of.place.copy()
    for step in steps:
        swapped += len(step) == 2
        for move in step:
            assert place[move.row, move.slot] == move.before
            place[move.row, move.slot] = move.after
            assert given.movable[move.row]
        assert given.usable[step[0].after]
    assert np.sort(place).tolist() == np.sort(then.place).tolist()
    # Who keeps a partition keeps its slot, and so the leader where it leads.
    for was, now in zip(of.place, then.place, strict=True):
        kept = np.isin(was, now)
        assert was[kept].tolist() == now[kept].tolist()
    for was, now, added in zip(replicas_of(of), replicas_of(then), of.added(then), strict=True):
        assert len(set(now)) == len(now) == len(was)
        # A replica that moved away and came back is none that is added.
        assert added == len(set(now) - set(was))
    if swapped == len(steps):  # each broker holds as many as before
        held = [
            np.bincount(p[p != UNKNOWN], minlength=len(of.rack)).tolist()
            for p in (of.place, then.place)
        ]
        assert held[0] == held[1]
    before, after = (each.exposure(each.most_in_one_rack()) for each in (of, then))
    assert (after <= before).all()
    first, second = reach(of), reach(then)
    assert second.by_one == first.by_one
    if UNKNOWN not in of.rack:  # a replica that leaves a broker without a rack comes onto one
        assert second.by_rack <= first.by_rack
        assert second.by_rack_and_one <= first.by_rack_and_one


@examples(100)
@given(of=placements(30))
def test_whatever_may_move_is_as_safe_from_racks_as_the_racks_allow(of):
    then, _ = improving_steps(of, terms(of), 1_000)
    assert Swaps(then, terms(of)).misplaced().tolist() == []


def test_two_partitions_in_one_rack_each_change_places():
    of = placed((0, 1), (2, 3), racks=(0, 0, 1, 1))
    then, [step] = improving_steps(of, terms(of), 10)
    assert [(m.row, m.slot) for m in step] == [(0, 1), (1, 1)], "followers, not leaders"
    assert sorted(map(sorted, replicas_of(then))) == [[0, 3], [1, 2]]
    assert (reach(of).by_rack, reach(then).by_rack) == ((2, 2), (0, 0))


def test_of_several_partners_the_smallest_is_moved_and_an_unknown_size_last():
    of = placed((0, 1), (2, 3), (2, 3), (2, 3), racks=(0, 0, 1, 1))
    for copied, partner in (((1.0, np.nan, 9.0, 4.0), 3), ((1.0, np.nan, 9.0, np.nan), 2)):
        step = improving_steps(of, terms(of, copied=np.array(copied)), 1)[1][0]
        assert [move.row for move in step] == [0, partner]


def test_a_replica_moves_alone_where_nobody_can_change_places_with_it():
    of = placed((0, 1), racks=(0, 0, 1, 1))
    then, [[move]] = improving_steps(of, terms(of), 10)
    assert (move.slot, move.after) == (1, 2)
    assert reach(then).by_rack == (0, 0)


@pytest.mark.parametrize("usable", [(True, True, False), (True, True, True)])
def test_what_racks_do_not_allow_is_not_misplaced(usable):
    of = placed((0, 1), racks=(0, 0, 1))
    found = Swaps(of, terms(of, usable=np.array(usable))).misplaced()
    assert found.tolist() == ([0] if all(usable) else [])


def test_pairs_that_share_far_more_than_others_are_relieved():
    of = placed(*[(0, 1), (2, 3), (4, 5)] * 20, racks=(UNKNOWN,) * 6)
    then, steps = improving_steps(of, terms(of), 100)
    assert (reach(of).worst_pair, reach(then).worst_pair) == ((20, 20), (10, 10))
    assert {len(step) for step in steps} == {2}
    assert len(steps) <= 30, "each step relieves one pair or two"


def test_chance_is_not_taken_for_a_crowded_pair():
    rng = np.random.default_rng(1)
    spread = [tuple(rng.choice(10, 3, replace=False)) for _ in range(300)]
    of = placed(*spread, racks=(UNKNOWN,) * 10, least=2)
    assert improving_steps(of, terms(of), 100)[1] == []
