"""What the sentence on losses says first while remote storage is away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from streaming.bus.view import ClusterView
from streaming.questions.headline.remote_storage import of_remote_storage
from streaming.questions.single_loss import single_loss
from tests.cycles import own_after
from tests.twin.disks.stage import MB, TIERED, Growing, cycles, volumes
from twin.engine.shard_state import ShardState

MINUTES = [0, 10, *range(60, 1_800, 60)]
AWAY_S = 600.0  # 08:10:00 by the clock of the cycles


def after(
    parts: Sequence[Growing],
    free_gb: float,
    own: Mapping[str, int] | None = None,
    seconds: Sequence[float] = MINUTES,
) -> ShardState:
    """The cluster's own shard half an hour after the first cycle."""
    configs = {part.topic: TIERED | (own or {}) for part in parts}
    of_cycles = cycles(parts, volumes(free_gb), configs, seconds)
    state = own_after(of_cycles, sorted(configs))
    return state


def said(state: ShardState) -> str:
    return of_remote_storage(ClusterView(cluster=state))


def test_the_sentence_begins_with_since_when_and_which_disk_is_full_first():
    state = after([Growing(uploaded_until_s=AWAY_S)], 12)
    expected = (
        "Remote storage takes no uploads since 2027-01-15 08:10:00 UTC. "
        "Broker 1 is full in 2 h 51 min. "
    )
    assert said(state) == expected
    assert single_loss(ClusterView(cluster=state), ())["sentence"].startswith(expected)


def test_nothing_is_said_while_remote_storage_takes_uploads():
    assert said(after([Growing()], 12)) == ""


def test_nothing_is_said_of_a_disk_that_is_not_full_in_sight():
    slow = Growing(uploaded_until_s=AWAY_S, mb_per_s=0.01)
    state = after([slow], 400, {"segment_bytes": MB})  # in more than a year
    assert said(state) == "Remote storage takes no uploads since 2027-01-15 08:10:00 UTC. "


def test_brokers_are_named_where_others_upload():
    parts = [Growing(uploaded_until_s=AWAY_S), Growing("u", replicas=(2, 1))]
    begins = "Remote storage takes no uploads of broker 1 since 2027-01-15 08:10:00 UTC. "
    assert said(after(parts, 12)).startswith(begins)


@pytest.mark.parametrize("cycles_seen", [1, 5])
def test_nothing_is_said_before_it_is_sure(cycles_seen):
    seen = MINUTES[:cycles_seen]
    assert said(after([Growing(uploaded_until_s=0.0)], 12, seconds=seen)) == ""
