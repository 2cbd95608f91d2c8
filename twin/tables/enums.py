"""Numbers with names that observations and state share. Stored: their values never change."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

NOT_SET: Final = -2
"""A topic does not override this setting: the cluster-wide value holds. (-1 is "switched off".)"""

UNLIMITED: Final = -1
"""Of retention, local retention and the delay of uploads: no limit, Kafka's own -1. In these
columns NOT_SET is what nobody could read."""

CLUSTER_WIDE: Final = ""
"""The topic name under which cluster-wide settings are listed."""


class ReplicaFlags(IntFlag):
    """The controller's view of one replica of a partition."""

    IN_ISR = 1
    IN_ELR = 2
    LAST_KNOWN_ELR = 4
    OFFLINE = 8  # its broker is fenced or its log directory failed
    ADDING = 16
    REMOVING = 32


class InheritedLimit(IntFlag):
    """Limits of a log that a topic does not set, so each broker applies its own."""

    RETENTION_MS = 1
    RETENTION_BYTES = 2
    LOCAL_RETENTION_MS = 4
    LOCAL_RETENTION_BYTES = 8
    SEGMENT_MS = 16
    SEGMENT_BYTES = 32
    LOCAL_MS_IS_RETENTION_MS = 64  # the local limit is the inherited total one
    LOCAL_BYTES_IS_RETENTION_BYTES = 128


class ReplicaSelector(IntEnum):
    """The kind of a broker's replica.selector.class, which sends consumers to replicas (KIP-392).

    The selector of the leader's broker decides.
    """

    LEADER = 0  # none is configured: every consumer reads from the leader
    RACK_AWARE = 1  # RackAwareReplicaSelector
    CUSTOM = 2  # any other class: where it sends consumers is unknown


class PendingUpload(IntEnum):
    """Why the earliest pending upload offset (ListOffsets -6) is what it is.

    Kafka answers -1 for several reasons; the collector distinguishes them by the other offsets of
    the same replica. Source: UnifiedLog.fetchEarliestPendingUploadOffset,
    ReplicaManager.fetchOffset of Kafka 4.3.
    """

    KNOWN = 0
    ABSENT = 1  # refused, or the broker is older than 4.2 and something is tiered
    NOTHING_TIERED = 2  # remote storage is off, or nothing has been uploaded yet
    ALL_TIERED = 3  # nothing is left below the log end: Kafka suppresses the answer
    LEARNING = 4  # something is tiered, but this replica's task has not run yet


class BatchKind(IntEnum):
    """What consumers get of a batch of records, by its header."""

    PLAIN = 0  # its records
    TRANSACTIONAL = 1  # its records, unless the transaction was aborted
    CONTROL = 2  # nothing: a marker of a transaction


class SegmentState(IntEnum):
    """How far the copy or the deletion of a remote segment is, as Kafka writes it."""

    COPY_STARTED = 0
    COPY_FINISHED = 1
    DELETE_STARTED = 2
    DELETE_FINISHED = 3


class SegmentVerdict(IntEnum):
    """Whether a remote segment is part of its log, or why not. Stored: values never change."""

    ON_LINEAGE = 0  # it is part of the log
    ORPHAN = 1  # it is not, and is not deleted
    DANGLING = 2  # its copy was started and not finished; for some minutes that is normal
    OVERLAP = 3  # part of the log; it begins inside another: normal after the leader moved
    DUPLICATE = 4  # part of the log; all of its offsets are in another
    DELETING = 5  # its deletion was started and not finished
    NOT_JUDGED = 6  # the history does not reach to it, or is not known


class GroupType(IntEnum):
    """The protocol of a group, as ListGroups v5 names it."""

    CLASSIC = 0
    CONSUMER = 1  # KIP-848
    SHARE = 2  # KIP-932: it has no committed offsets
    STREAMS = 3  # KIP-1071


class GroupState(IntEnum):
    """The state of a group, as its coordinator names it."""

    EMPTY = 0  # it has no members
    STABLE = 1
    PREPARING_REBALANCE = 2
    COMPLETING_REBALANCE = 3
    ASSIGNING = 4  # KIP-848
    RECONCILING = 5  # KIP-848
    DEAD = 6
    NOT_READY = 7  # KIP-1071
