"""The order that KIP-1023 gives to the offsets of a tiered log.

Lx is the leader's local log start, Ly its last stable offset, Lz its log end; Rx is the log start
in remote storage, Ry the end of uploads. Then Lz >= Ly >= Lx and Ly >= Ry >= Rx, and Ry >= Lx where
something of the log lies below Lx. Ry >= Rx is not checked: records that are deleted by request, or
by retention while the topic is not tiered or its copies are disabled, move the log start beyond
what is uploaded (``TierState.BEGINS_AGAIN``).

The offsets come from several requests, so two of one cycle are not from the same moment. But each
offset only grows while a leader leads. So the offset that must be larger, as of this cycle, is
compared with the offset that must be smaller, as of the cycle before: the latter was sampled
earlier, and has not become smaller since. Offsets that contradict each other across two cycles do
so within each of them as well, so only such partitions are kept for the next cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntFlag

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import Alert, gauge, risk, rule
from twin.declarations.signature import Before, Cycle
from twin.declarations.table import (
    UNKNOWN,
    Bool,
    Int32,
    Int64,
    PartitionTable,
    SparseTable,
    UInt8,
    column,
)
from twin.rules.partitions.leaders import Leaders
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.tier_states import remote_ends
from twin.tables.state import Partitions


class Disorder(IntFlag):
    """Inequalities of KIP-1023 that do not hold."""

    END_BELOW_STABLE = 1  # Lz < Ly
    STABLE_BELOW_LOCAL_START = 2  # Ly < Lx
    STABLE_BELOW_REMOTE_END = 4  # Ly < Ry: something was uploaded that is not stable
    REMOTE_END_BELOW_LOCAL_START = 8  # Ry < Lx: what lies between is neither there nor on disk


class SuspectOffsets(
    SparseTable, kind="suspect_offsets", on_demand="columns of leaders, of the few out of order"
):
    """[N] offsets of tiered partitions out of KIP-1023's order, of leaders that just answered."""

    leader: Int32 = column("broker id of the leader")
    leader_epoch: Int32 = column("its leader epoch")
    local_start: Int64 = column("Lx, local log start")
    stable: Int64 = column("Ly, last stable offset")
    end: Int64 = column("Lz, log end")
    gap_end: Int64 = column("Lx if something of the log lies below it, else unknown")
    remote_end: Int64 = column("Ry, offset after the last one in remote storage")


class TierDisorder(PartitionTable, kind="tier_disorder", api="", on_demand="offsets of two cycles"):
    """[P] which inequalities of KIP-1023 do not hold."""

    tier_disorder: UInt8 = column(
        "inequalities of KIP-1023 that do not hold", fill=0, flags=Disorder
    )


@rule
def suspect_offsets(
    leaders: Leaders, partitions: Partitions, configs: TopicConfigs, cycle: Cycle
) -> SuspectOffsets:
    """Offsets that the leader does not report are unknown; Ry is the log start while nothing is
    uploaded."""
    answered = leaders.sampled_at_ms == cycle.observed_at_ms
    local_start, start = leaders.local_log_start_offset, leaders.log_start_offset
    offsets = SuspectOffsets(
        row=np.arange(len(start), dtype=np.int32),
        leader=partitions.leader,
        leader_epoch=partitions.leader_epoch,
        local_start=local_start,
        stable=leaders.last_stable_offset,
        end=leaders.log_end_offset,
        gap_end=np.where((start != UNKNOWN) & (local_start > start), local_start, UNKNOWN),
        remote_end=remote_ends(leaders),
    )
    is_suspect = _disorder(offsets, offsets) != 0
    return offsets.pick(is_suspect & answered & (configs.remote_storage == 1))


@rule
def tier_disorder(
    now: SuspectOffsets, before: Before[SuspectOffsets], partitions: Partitions
) -> TierDisorder:
    """The disorder of partitions that the same leader has led since the cycle before."""
    disorder = np.zeros(len(partitions.leader), np.uint8)
    place = keys.find(before.row.astype(np.int64), now.row.astype(np.int64))
    here = np.flatnonzero(place != UNKNOWN)
    new, old = now.pick(here), before.pick(place[here])
    same = (new.leader == old.leader) & (new.leader_epoch == old.leader_epoch)
    disorder[new.row] = np.where(same, _disorder(new, old), 0)
    return TierDisorder(disorder)


def _disorder(new: SuspectOffsets, old: SuspectOffsets) -> UInt8:
    """[N] Disorder: each larger offset of ``new`` against the smaller one of ``old``."""
    disorder = np.zeros(len(new), np.uint8)
    for flag, larger, smaller in (
        (Disorder.END_BELOW_STABLE, new.end, old.stable),
        (Disorder.STABLE_BELOW_LOCAL_START, new.stable, old.local_start),
        (Disorder.STABLE_BELOW_REMOTE_END, new.stable, old.remote_end),
        (Disorder.REMOTE_END_BELOW_LOCAL_START, new.remote_end, old.gap_end),
    ):
        is_wrong = larger < smaller
        if is_wrong.any():  # mostly none is
            is_wrong &= (larger != UNKNOWN) & (smaller != UNKNOWN)
            disorder |= is_wrong * np.uint8(flag)
    return disorder


@risk(
    "tier_disorder",
    rank=115,
    severity="warn",
    open_after_ms=60_000,
    close_after_ms=10_000,
    sentence="offsets of the log and of remote storage contradict each other",
    source="KIP-1023: Lz >= Ly >= Lx and Ly >= Ry; UnifiedLog.isSegmentEligibleForDeletion",
    alert=Alert(
        summary="have offsets that contradict each other",
        description="The leader's offsets of {n} partitions of {cluster} are not in the order that "
        "KIP-1023 relies on: Lz >= Ly >= Lx, Ly >= Ry, and Ry >= Lx below which something lies.",
        wait="5m",
        keep_firing_for="5m",
    ),
)
def is_disordered(disorder: TierDisorder) -> Bool:
    """One of the four inequalities does not hold."""
    return disorder.tier_disorder != 0


@gauge(
    "partitions_in_tier_disorder",
    "Partitions by the inequality of KIP-1023 that their leader's offsets do not meet.",
    labels=("inequality",),
)
def partitions_in_tier_disorder(disorder: TierDisorder) -> Mapping[tuple[str], int]:
    """The partitions by inequality; one may count under several."""
    return {
        (str(each.name).lower(),): int((disorder.tier_disorder & np.uint8(each) != 0).sum())
        for each in Disorder
    }
