"""The controllers of the quorum: who follows the active one, and how many more may go.

Elections need a majority of the voters. A voter that is away or behind counts for none: with two of
three the cluster works as before, and the next loss stops elections. Controllers need not be
brokers, so all this is of nodes.

Knows voters only: an observer (a broker, or a controller that does not vote) elects nobody.

Source: DescribeQuorum, KIP-836; KafkaRaftClient and LeaderState, Kafka 4.3; KIP-595.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final

import numpy as np

from twin.declarations.declare import Alert, Occurrence, event, gauge, risk, rule
from twin.declarations.signature import Before, Cycle, Earlier
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    ClusterTable,
    Int8,
    Int32,
    Int64,
    ShardReport,
    column,
)
from twin.tables.state import ControllerQuorum

CAUGHT_UP_WITHIN_MS: Final = 5_000
"""A voter fetches each half second and is replaced after controller.quorum.fetch.timeout.ms (2 s);
one that was not caught up for longer is not counted on."""

OLD_AFTER_MS: Final = 15_000
"""An election among controllers takes a few seconds; who has not answered for longer is unknown."""


class Follows(IntEnum):
    """Whether a voter of the quorum follows the active controller."""

    ACTIVE = 0  # it is that controller
    CAUGHT_UP = 1
    BEHIND = 2  # it copies the metadata log, and was not caught up for more than 5 s
    AWAY = 3  # it was not, and its metadata log does not grow


class Voters(ShardReport, kind="voters"):
    """[K] how far each voter is, sorted by node; no row while the quorum does not answer."""

    node: Int32 = column("node id")
    is_active: Int8 = column("it is the active controller", tri_state=True)
    log_end_offset: Int64 = column("end of its metadata log")
    caught_up_at_ms: Int64 = column("when it was last caught up, by the active controller's clock")
    observed_at_ms: Int64 = column("when that was observed")


@rule
def voters(quorum: ControllerQuorum, cycle: Cycle) -> Voters:
    """No row with ZooKeeper, and where the newest answer is old."""
    is_new = cycle.observed_at_ms - quorum.observed_at_ms <= OLD_AFTER_MS
    new = quorum.pick((quorum.node != NO_BROKER) & is_new)
    return Voters(
        new.node, new.is_active.astype(np.int8), new.log_end_offset, new.caught_up_at_ms,
        new.observed_at_ms,
    )  # fmt: skip


class Controllers(ClusterTable, kind="controllers"):
    """[K] whether each voter follows the active controller, sorted by node."""

    node: Int32 = column("node id")
    follows: Int8 = column("whether it follows the active controller", enum=Follows)
    behind_ms: Int64 = column(
        "time since it was caught up; unknown if it was not since the active one was elected"
    )
    behind_records: Int64 = column("records of the metadata log that it lacks")
    log_end_offset: Int64 = column("end of its metadata log")
    observed_at_ms: Int64 = column("when that was observed")


@rule
def controllers(before: Before[Controllers], reported: Voters) -> Controllers:
    """One shard knows the quorum. Without the times of Kafka 3.4 nothing is known of followers."""
    if np.array_equal(reported.observed_at_ms, before.observed_at_ms):
        return before
    active = reported.is_active == 1
    newest_ms = int(reported.caught_up_at_ms[active].max(initial=UNKNOWN))
    end = int(reported.log_end_offset[active].max(initial=UNKNOWN))
    caught_up, own_end = reported.caught_up_at_ms, reported.log_end_offset
    late = newest_ms - caught_up > CAUGHT_UP_WITHIN_MS
    _, at, was = np.intersect1d(reported.node, before.node, return_indices=True)
    stands_still = np.zeros(len(own_end), bool)
    stands_still[at] = own_end[at] == before.log_end_offset[was]
    follows = np.where(
        late, np.where(stands_still, Follows.AWAY, Follows.BEHIND), Follows.CAUGHT_UP
    )
    follows = np.where(active, Follows.ACTIVE, follows)
    is_known = newest_ms != UNKNOWN
    has_time = is_known & (caught_up != UNKNOWN)
    has_end = (end != UNKNOWN) & (own_end != UNKNOWN)
    return Controllers(
        reported.node,
        np.where(is_known | active, follows, UNKNOWN).astype(np.int8),
        np.where(has_time, np.maximum(newest_ms - caught_up, 0), UNKNOWN),
        np.where(has_end, np.maximum(end - own_end, 0), UNKNOWN),
        own_end,
        reported.observed_at_ms,
    )


def spare_controllers(quorum: Controllers) -> int:
    """How many more voters may go before no majority is left; UNKNOWN if that is not known."""
    if not len(quorum.node) or (quorum.follows == UNKNOWN).any():
        return UNKNOWN
    follow = int((quorum.follows <= Follows.CAUGHT_UP).sum())
    return max(follow - (len(quorum.node) // 2 + 1), 0)


# ---------------------------------------------------------------- declared


@event("controller_lost", "controller_back", per="broker")
def controllers_changed(was: Earlier[Controllers], now: Controllers) -> Iterator[Occurrence]:
    """Voters that no longer follow the active controller, and those that do again."""
    both, old, new = np.intersect1d(was.node, now.node, return_indices=True)
    spare = spare_controllers(now)
    for i, node in enumerate(both.tolist()):
        before, after = int(was.follows[old[i]]), int(now.follows[new[i]])
        if UNKNOWN in (before, after) or _is_out(before) == _is_out(after):
            continue
        if _is_out(after):
            how = "is away" if after == Follows.AWAY else "is behind"
            text = f"controller {node} {how}: {spare} more may go before no leader is elected"
            yield Occurrence(text, kind="controller_lost", broker=node)
        else:
            text = f"controller {node} follows again: {spare} more may go"
            yield Occurrence(text, kind="controller_back", broker=node)


def _is_out(follows: int) -> bool:
    return follows > Follows.CAUGHT_UP


@risk(
    "quorum_short",
    rank=29,
    severity="warn",
    per="cluster",
    # A restart takes a controller away for about a minute.
    open_after_ms=120_000,
    close_after_ms=10_000,
    sentence="a controller is away or behind: fewer of the others can be lost before nobody is "
    "elected",
    source="DescribeQuorum; KIP-595, KIP-836",
    alert=Alert(
        summary="has a controller that is away or behind",
        description="A voter of the controller quorum of {cluster} has not followed the active "
        "controller for two minutes. kafka_twin_controllers_spare says how many more may go before "
        "no leader is elected, kafka_twin_controller_follows which one it is.",
        wait="0s",
        keep_firing_for="1m",
    ),
)
def is_quorum_short(quorum: Controllers) -> int:
    """Unknown while the quorum is, and before Kafka 3.4."""
    if not len(quorum.node) or (quorum.follows == UNKNOWN).any():
        return UNKNOWN
    return int((quorum.follows > Follows.CAUGHT_UP).any())


@gauge(
    "controllers_spare",
    "Voters of the controller quorum that may go before no majority of them is left, and no leader "
    "is elected; no series while that is not known.",
)
def controllers_spare(quorum: Controllers) -> float:
    """Only those that follow the active controller count."""
    spare = spare_controllers(quorum)
    return float("nan") if spare == UNKNOWN else float(spare)


@gauge(
    "controller_follows",
    "1 if the voter of the controller quorum is the active controller or follows it, 0 if it is "
    "away or behind; by node id, which need not be that of a broker.",
    labels=("node",),
)
def controller_follows(quorum: Controllers) -> Mapping[tuple[str], int]:
    """Voters for which that is not known have no series."""
    return {
        (str(node),): int(follows <= Follows.CAUGHT_UP)
        for node, follows in zip(quorum.node.tolist(), quorum.follows.tolist(), strict=True)
        if follows != UNKNOWN
    }


@gauge(
    "controller_behind_seconds",
    "Seconds since the voter of the controller quorum was last caught up with the active "
    "controller; no series if it was not since that one was elected.",
    labels=("node",),
    scale=1 / 1000,
)
def controller_behind_seconds(quorum: Controllers) -> Mapping[tuple[str], int]:
    """By the clock of the active controller."""
    return _by_node(quorum.node, quorum.behind_ms)


@gauge(
    "controller_behind_records",
    "Records of the metadata log that the voter of the controller quorum lacks.",
    labels=("node",),
)
def controller_behind_records(quorum: Controllers) -> Mapping[tuple[str], int]:
    """Against the end of the active controller's log."""
    return _by_node(quorum.node, quorum.behind_records)


def _by_node(node: Int32, values: Int64) -> Mapping[tuple[str], int]:
    pairs = zip(node.tolist(), values.tolist(), strict=True)
    return {(str(each),): value for each, value in pairs if value != UNKNOWN}
