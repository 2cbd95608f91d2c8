"""Kafka's own topics, and what stops while one of their partitions cannot be written.

Knows the names, and what Kafka keeps there. All are written with acks=all, so a partition that has
no leader, or fewer replicas in sync than min.insync.replicas, stops the same things.

Source: GroupCoordinatorService, TransactionStateManager, TopicBasedRemoteLogMetadataManager,
PersisterStateManager and KRaft's QuorumController, Kafka 4.3; KIP-405, KIP-595, KIP-932.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

WHAT_STOPS: Final[Mapping[str, str]] = {
    "__consumer_offsets": "consumer groups with their coordinator there cannot commit offsets or "
    "rebalance: members read on, and read again from the last commit once they are restarted",
    "__transaction_state": "producers whose transactional id belongs there can neither begin nor "
    "end transactions, and open ones keep records from read_committed consumers",
    "__remote_log_metadata": "no upload of the tiered partitions that belong there finishes, and "
    "nothing of them is deleted from remote storage: their local logs grow",
    "__share_group_state": "share groups that belong there cannot keep what was acknowledged: "
    "their consumers get no more records",
    "__cluster_metadata": "no leader is elected, and no topic, setting or ISR changes",
}
"""What stops while a partition of the topic has no leader or refuses writes, as a clause."""

STOPPING_RISKS: Final = frozenset({"partition_offline", "leader_silent", "under_min_isr"})
"""Risks of a partition that cannot be written with acks=all."""
