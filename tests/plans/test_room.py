"""Plans that move data ask the disks they go to."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from streaming.bus.view import ClusterView
from streaming.plans.demote import plan_demote
from streaming.plans.judge import judge
from streaming.plans.place import plan_place
from streaming.plans.plan_data import plan_data
from tests.asking import a_view
from tests.builders import brokers_frame
from tests.twin.disks.stage import GB, MINUTES, PLAIN, Growing, cycles, one_shard, volumes
from tests.twin.disks.test_room import HELD, shards

ALONE = Growing(replicas=(1,))


def seen(free_gb: float, parts: Sequence[Growing] = (ALONE,)) -> tuple[ClusterView, int]:
    """The cluster after half an hour, and the time."""
    state, own = shards(parts, free_gb)
    return a_view(state, cluster=own), state.observed_at_ms


def test_a_proposal_that_does_not_fit_says_so_first_and_where():
    view, now_ms = seen(5)
    answer = judge(view, now_ms, {("t", 0): (1, 2)})
    assert answer.data["fits"] == "does_not_fit"
    [room] = answer.data["room"]
    assert (room["broker"], room["needed_bytes"], room["free_bytes"]) == (2, HELD, 5 * GB)
    assert "The proposal does not fit on the disks of broker 2." in answer.lines[:2]
    assert (
        "On broker 2 it does not fit: it takes 5.42 GiB, and 4.657 GiB are free in /disks/0."
        in answer.lines
    )


def test_a_proposal_that_fits_for_some_time_says_until_when():
    view, now_ms = seen(36)
    answer = judge(view, now_ms, {("t", 0): (1, 2)})
    assert answer.data["fits"] == "fits_until"
    # 30.18 GB are left, at 1 MB/s.
    assert answer.data["room"][0]["full_at_earliest_ms"] == now_ms + 30_180_000
    assert (
        "On broker 2 it fits until 2027-01-15 17:00:00 UTC: it takes 5.42 GiB, and 33.53 GiB are "
        "free in /disks/0." in answer.lines
    )


def test_a_proposal_that_moves_no_data_needs_no_room():
    view, now_ms = seen(5, [Growing()])
    answer = judge(view, now_ms, {("t", 0): (2, 1)})
    assert (answer.data["fits"], answer.data["room"]) == ("fits", [])
    assert not any("fit" in line for line in answer.lines)


def test_what_is_taken_away_frees_nothing_before_it_is_copied():
    """Both replicas change places: each broker ends with as much, and holds both meanwhile."""
    view, now_ms = seen(5, [ALONE, Growing("u", replicas=(2,))])
    answer = judge(view, now_ms, {("t", 0): (2,), ("u", 0): (1,)})
    assert [each["room"] for each in answer.data["room"]] == ["does_not_fit"] * 2


@pytest.mark.parametrize(
    ("free_gb", "verdict", "words"),
    [(36, "fits_until", "fits until 2027-01-15 17:00:00 UTC"), (5, "does_not_fit", "does not fit")],
)
def test_a_plan_that_moves_replicas_says_where_they_fit(free_gb: float, verdict: str, words: str):
    # Brokers 1 and 4 are in one rack, so one of both replicas goes to broker 2.
    of_cycles = cycles([Growing(replicas=(1, 4))], volumes(free_gb), {"t": PLAIN}, MINUTES)
    state, own = one_shard(
        ([brokers_frame((1, 2, 3, 4), at_ms), *frames[1:]], at_ms) for frames, at_ms in of_cycles
    )
    made = plan_place(a_view(state, cluster=own), state.observed_at_ms)
    [room] = plan_data(made, 100)["room"]
    assert (room["broker"], room["room"], room["needed_bytes"]) == (2, verdict, HELD)
    assert any(f"On broker 2 it {words}" in line for line in made.lines)


def test_a_plan_that_moves_leaders_needs_no_room():
    view, now_ms = seen(0.1, [Growing()])
    made = plan_demote(view, now_ms, 1)
    assert plan_data(made, 100)["room"] == []
    assert "no data moves, so no disk needs room" in made.lines[0]
