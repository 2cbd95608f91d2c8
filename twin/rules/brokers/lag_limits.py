"""replica.lag.time.max.ms, as the leader of each partition has it.

Source: Partition.getOutOfSyncReplicas and ReplicaManager.isrExpiryCheck, Kafka 4.3: a leader judges
its followers by its own static setting.
"""

from __future__ import annotations

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import rule
from twin.declarations.table import UNKNOWN, Int64, PartitionTable, column
from twin.tables.state import Brokers, Configs, Partitions


class LagLimits(PartitionTable, kind="lag_limits", on_demand="looked up in the table brokers"):
    """[P] the time after which each leader removes a follower that is not caught up."""

    lag_time_max_ms: Int64 = column("replica.lag.time.max.ms of the leader's broker")


@rule
def lag_limits(partitions: Partitions, brokers: Brokers, configs: Configs) -> LagLimits:
    """The setting of the leader's broker, or of the broker that was asked for the cluster's."""
    asked_ms = configs.cluster_wide("replica_lag_time_max_ms")
    own_ms = np.append(brokers.lag_time_max_ms, UNKNOWN)
    own_ms = own_ms[keys.find_sorted(brokers.broker, partitions.leader)]
    return LagLimits(np.where(own_ms == UNKNOWN, asked_ms, own_ms))
