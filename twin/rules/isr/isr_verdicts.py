"""Observations when a replica leaves the ISR, and the cause that they point to."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

import numpy as np

from twin.declarations.table import Bool, Int8, Int32


class Verdict(IntEnum):
    """Why a replica left the ISR. The values are stored."""

    UNEXPLAINED = 0
    SLOW_LEADER = 1  # its leader worked too slowly on the fetches of healthy followers
    FROZEN_LEADER = 2  # its leader stood still, and found every follower late when it went on
    SLOW_FOLLOWER = 3  # it is alive, alone, and behind
    DEAD_FOLLOWER = 4  # its broker is gone


class Evidence(IntFlag):
    """Observations that a verdict rests on."""

    FOLLOWER_OFFLINE = 1
    FOLLOWER_SILENT = 2
    FOLLOWER_BEHIND = 4
    LEADER_SILENT = 8
    LEADER_ANSWERS_SLOWLY = 16
    SEVERAL_FOLLOWERS_LEFT = 32
    FETCH_WAS_PENDING = 64  # it had asked for all there was, and the leader worked on it
    WAS_LEADER = 128
    FETCH_WAS_QUEUED = 256  # the same, in the leader's request queue: no handler had taken it


SENTENCE: Final = {
    Verdict.UNEXPLAINED: "nothing that the twin observes explains it",
    Verdict.SLOW_LEADER: "its leader was too slow for healthy followers",
    Verdict.FROZEN_LEADER: "its leader stood still and found every follower late",
    Verdict.SLOW_FOLLOWER: "it did not keep up, the others did",
    Verdict.DEAD_FOLLOWER: "its broker is gone",
}

LEADERS_FAULT: Final = (Verdict.SLOW_LEADER, Verdict.FROZEN_LEADER)


def verdict_of(evidence: Int32) -> Int8:
    """[N] the first that fits: a dead follower explains more than a slow leader does."""

    def has(*which: Evidence) -> Bool:
        return (evidence & np.int32(sum(which))) != 0

    return np.select(
        [
            has(Evidence.FOLLOWER_OFFLINE),
            has(Evidence.WAS_LEADER),  # it handed over or lost the leadership
            # The controller still hears of it, or it would be offline.
            has(Evidence.FOLLOWER_SILENT) & ~has(Evidence.LEADER_SILENT),
            has(Evidence.LEADER_SILENT),
            has(Evidence.FETCH_WAS_PENDING, Evidence.FETCH_WAS_QUEUED,
                Evidence.LEADER_ANSWERS_SLOWLY, Evidence.SEVERAL_FOLLOWERS_LEFT),
            has(Evidence.FOLLOWER_BEHIND),
        ],
        [
            Verdict.DEAD_FOLLOWER,
            Verdict.UNEXPLAINED,
            Verdict.SLOW_FOLLOWER,
            Verdict.FROZEN_LEADER,
            Verdict.SLOW_LEADER,
            Verdict.SLOW_FOLLOWER,
        ],
        Verdict.UNEXPLAINED,
    ).astype(np.int8)  # fmt: skip
