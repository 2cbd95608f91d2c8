"""The last fetch of each follower, as its leader saw it: what KIP-501 judges by."""

from __future__ import annotations

import numpy as np

from twin.declarations.declare import rule
from twin.declarations.table import UNKNOWN, Int64, ReplicaTable, column
from twin.rules.partitions.leaders import Roles
from twin.rules.replication.caught_up import tracked
from twin.tables.state import Assignment, FollowerStates, Partitions


class LastFetches(
    ReplicaTable, kind="last_fetches", api="", on_demand="columns of stored follower states"
):
    """[P, R] the last fetch of each follower; unknown without a tap on its leader."""

    last_fetch_at_ms: Int64 = column("when its last fetch arrived at the leader")
    last_fetch_leader_end_offset: Int64 = column("log end of the leader at that fetch")


@rule
def last_fetches(
    followers: FollowerStates, assignment: Assignment, roles: Roles, partitions: Partitions
) -> LastFetches:
    """From the state that the present leader keeps of each follower."""
    at_ms, leader_end = (np.full(roles.is_leader.shape, UNKNOWN, np.int64) for _ in range(2))
    row, slot, states = tracked(followers, assignment, roles, partitions)
    at_ms[row, slot] = np.where(states.last_fetch_at_ms > 0, states.last_fetch_at_ms, UNKNOWN)
    leader_end[row, slot] = states.last_fetch_leader_end_offset
    return LastFetches(at_ms, leader_end)
