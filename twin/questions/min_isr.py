"""Another min.insync.replicas: what a state would be with it.

Each change of the setting, up or down, of a topic, of a broker or of the cluster, clears the ELR
of the topics that it concerns: the controller no longer knows whether its members have what was
acknowledged. A partition that relied on one has no clean successor then. A topic that is given the
value which it had inherited loses it, too.

Source: KIP-966; ReplicationControlManager.getTopicsWithElr and ClearElrRecord, Kafka 4.3. Measured:
ELR [3] was [] at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from twin.arrays.slots import any_slot
from twin.declarations.table import NO_BROKER, Bool
from twin.engine.shard_state import ShardState
from twin.kafka.election import Outcome
from twin.rules.election.after_loss import LeadersAfterLoss
from twin.rules.election.ballots import in_isr
from twin.rules.election.next_leader import NextLeaders
from twin.rules.partitions.leaders import Roles
from twin.rules.partitions.topic_configs import ControllerMinIsr, LeaderMinIsr, TopicConfigs
from twin.tables.enums import ReplicaFlags
from twin.tables.state import Partitions, Replicas


@dataclass(frozen=True, slots=True)
class ClearedElrs:
    """[P] partitions whose ELR a change clears, and of these what that costs."""

    is_cleared: Bool
    has_no_successor: Bool  # no clean successor then; without a leader: nobody to bring it back


def with_min_isr(state: ShardState, min_isr: int) -> ShardState:
    """The state with that min.insync.replicas for all its partitions, judged again."""
    configs, replicas = state[TopicConfigs], state[Replicas]
    changed = (configs.min_insync_replicas != min_isr) | (configs.min_isr_inherited == 1)
    configured = np.full(state.partitions, min_isr, configs.min_insync_replicas.dtype)
    in_elr = np.uint8(ReplicaFlags.IN_ELR)
    flags = np.where(changed[:, None], replicas.replica_flags & ~in_elr, replicas.replica_flags)
    return state.with_tables(
        replace(
            configs,
            min_insync_replicas=configured,
            min_isr_inherited=np.zeros_like(configs.min_isr_inherited),
        ),
        replace(replicas, replica_flags=flags),
    ).remade(LeaderMinIsr, ControllerMinIsr, NextLeaders)


def cleared_elrs(now: ShardState, then: ShardState) -> ClearedElrs:
    """The partitions whose ELR is there now and not then."""
    roles = now[Roles]
    had, has = (any_slot(s[Roles].in_elr & s[Roles].is_assigned) for s in (now, then))
    is_cleared = had & ~has
    before, after = now[LeadersAfterLoss].outcome, then[LeadersAfterLoss].outcome
    loses_it = (before <= Outcome.ELR) & (after >= Outcome.LAST_KNOWN)
    # Without a leader and an ISR, it waits for a member of the ELR.
    loses_it |= (now[Partitions].leader == NO_BROKER) & ~any_slot(in_isr(roles))
    return ClearedElrs(is_cleared, is_cleared & loses_it)
