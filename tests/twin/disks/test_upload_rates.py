"""How fast uploads come, by the newest of them: right on average, and nothing once they stop."""

from __future__ import annotations

import numpy as np
import pytest

from tests.builders import NOW_MS, configs_frame, empty
from tests.cycles import listed_frames
from tests.twin.test_remote_storage import AWAY_S, PER_S, Uploading
from twin.rules.partitions.leaders import Leaders
from twin.rules.tiering.last_uploads import LastUploads
from twin.step import step

CYCLE_S = 5


def rates(part: Uploading, seconds: int) -> dict[int, float]:
    """Records uploaded a second, by seconds after the first cycle."""
    state, found = empty(), {}
    for after_s in range(0, seconds + 1, CYCLE_S):
        now, at_ms = [part.at(after_s)], NOW_MS + 1_000 * after_s
        frames = [
            configs_frame({part.topic: part.configs()}, at_ms),
            *listed_frames(now, at_ms),
        ]
        state, _ = step(state, frames, at_ms)
        [found[after_s]] = state[LastUploads].records_per_s_now(state[Leaders], np.array([0]))
    return found


@pytest.mark.parametrize("segment_s", [5, 15, 60, 120, 300])
def test_uploads_that_keep_up_are_as_fast_as_writes(segment_s):
    found = rates(Uploading(segment_s=segment_s), 1_500)
    late = [rate for after_s, rate in found.items() if after_s > 3 * segment_s + 400]
    assert late == pytest.approx([PER_S] * len(late), rel=0.02)


@pytest.mark.parametrize("takes_s", [80, 120])
def test_uploads_that_are_slow_have_their_own_rate(takes_s):
    found = rates(Uploading(takes_s=takes_s), 1_500)
    assert found[1_500] == pytest.approx(60 / takes_s * PER_S, rel=0.02)


@pytest.mark.parametrize("segment_s", [15, 60])
def test_there_is_none_two_minutes_after_the_last(segment_s):
    found = rates(Uploading(segment_s=segment_s, away_s=AWAY_S), 600)
    assert found[AWAY_S] == pytest.approx(PER_S, rel=0.2)
    assert 0 < found[AWAY_S + 90] < PER_S
    assert found[AWAY_S + 125] == 0


def test_before_two_uploads_nobody_knows():
    found = rates(Uploading(), 100)
    assert found[60] == found[100] == 0
