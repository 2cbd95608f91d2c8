"""The cost of a restart while the brokers are out: leaders that move, ISRs, cold leaders.

Which leader comes next follows from the election rule, so the cost is given for each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from twin.arrays.slots import any_slot, count_slots
from twin.declarations.signature import parameters, reading
from twin.declarations.table import KAFKA, NO_BROKER, UNKNOWN, Int64, Rows
from twin.engine.shard_state import ShardState
from twin.questions import whatif
from twin.questions.whatif import Loss
from twin.rules.election.after_loss import away_replicas
from twin.rules.election.ballots import in_isr
from twin.rules.election.next_leader import Electorate
from twin.rules.partitions.leaders import Leaders, Roles
from twin.rules.partitions.topic_configs import LeaderMinIsr, TopicConfigs
from twin.rules.tiering.coverage import Coverage, LocalLog
from twin.tables.state import Assignment, Brokers, Partitions


@dataclass(frozen=True, slots=True)
class RestartCost:
    """Numbers of partitions, and bytes. The costs of shards add up.

    A cold leader lacks old records on its disk, so consumers read them from remote storage.
    ``remote_bytes`` is the size of such records that the present leaders serve from their disks.
    """

    leaders_moved: int = 0  # get another leader
    offline: int = 0  # have no leader while the brokers are out
    under_min_isr: int = 0  # a replica leaves the ISR, and too few stay for acks=all
    at_min_isr: int = 0  # a replica leaves the ISR, and none of those that stay can be spared
    cold_leaders: int = 0  # are led by a cold replica
    remote_bytes: int = 0
    remote_bytes_unknown: int = 0  # partitions with a cold leader that remote_bytes leaves out

    def __add__(self, other: RestartCost) -> RestartCost:
        return RestartCost(
            *(getattr(self, f.name) + getattr(other, f.name) for f in fields(RestartCost))
        )


RestartCosts = Mapping[str, RestartCost]
"""The cost by election rule."""


def restart_costs(state: ShardState, together: Collection[int], loss: Loss) -> RestartCosts:
    """The costs in one shard, if those brokers are out at once; ``loss`` is their loss."""
    rows = whatif.described_on(state, together)  # the others cost nothing
    here = state.with_only(_READS).take(rows)
    members, electorate = in_isr(here[Roles]), whatif.electorate_of(here)
    away = away_replicas(electorate, here[Brokers], state.observed_at_ms)
    mine = whatif.on_brokers(here[Assignment].broker, together)
    leaves = any_slot(members & electorate.candidates.is_acceptable & mine)
    left, least = count_slots(members & ~away & ~mine), here[LeaderMinIsr].min_isr.copy()
    falls_short, lost = np.zeros(len(rows), bool), np.searchsorted(rows, loss.row)
    falls_short[lost], least[lost] = loss.under_min_isr, loss.min_isr
    leads = np.flatnonzero(whatif.on_brokers(state[Partitions].leader[loss.row], together))
    costs: dict[str, RestartCost] = {}
    for rule, next_leaders in loss.next_leaders.items():
        if rule != KAFKA and np.array_equal(next_leaders.leader, loss.kafka.leader):
            costs[rule] = costs[KAFKA]
            continue
        following = next_leaders.take(leads)
        cold = following.coverage == Coverage.COLD
        remote = remote_bytes(state, loss.row[leads][cold], following.leader[cold])
        costs[rule] = RestartCost(
            leaders_moved=int((following.leader != NO_BROKER).sum()),
            offline=int((following.leader == NO_BROKER).sum()),
            under_min_isr=int((leaves & falls_short).sum()),
            at_min_isr=int((leaves & (left == least)).sum()),
            cold_leaders=int(cold.sum()),
            remote_bytes=int(remote[remote != UNKNOWN].sum()),
            remote_bytes_unknown=int((remote == UNKNOWN).sum()),
        )
    return costs


def total_costs(shards: Iterable[RestartCosts]) -> RestartCosts:
    """The costs of all shards; without any shard, none by Kafka's rule."""
    total: dict[str, RestartCost] = {}
    for costs in shards:
        for rule, cost in costs.items():
            total[rule] = total.get(rule, RestartCost()) + cost
    return total or {KAFKA: RestartCost()}


_READS: Final = (*reading(Roles, Brokers, LeaderMinIsr), *parameters(Electorate))
"""The tables of which all partitions on the brokers are read."""


def remote_bytes(state: ShardState, row: Rows, next_leader: Int64) -> Int64:
    """[N] by row: bytes on the leader's disk that the next leader does not have on its own disk.

    0 where the topic is not tiered, since nothing can be read from remote storage there.
    """
    local_bytes, leading = state[LocalLog].held_bytes, state[Leaders].slot[row]
    slot = (state[Assignment].broker[row] == next_leader[:, None]).argmax(axis=1)
    now = np.where(leading == UNKNOWN, UNKNOWN, local_bytes[row, leading])
    then = local_bytes[row, slot]
    is_known = (now != UNKNOWN) & (then != UNKNOWN)
    missing = np.where(is_known, np.maximum(now - then, 0), UNKNOWN)
    return np.where(state[TopicConfigs].remote_storage[row] == 1, missing, 0)
