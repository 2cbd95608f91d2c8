"""Log directories: what brokers say of each, and in which of them each replica is.

A broker lists its directories with the size and the free space of the volume of each
(DescribeLogDirs v4, KIP-827), and with the error of one that has failed. It belongs to no
partition, so one shard has the directories of all brokers and reports them to the cluster's own.

A replica is in a directory of its broker, which has a number: its place among the directories,
sorted by path. A broker with one directory has all of its replicas in it, so nobody says so.

Source: ReplicaManager.describeLogDirs, Kafka 4.3.
"""

from __future__ import annotations

from typing import Final

from twin.declarations.table import (
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    KeyedTable,
    Observation,
    ReplicaTable,
    Table,
    Text,
    column,
)
from twin.tables.columns import ReplicaKey

STORAGE_ERROR: Final = 56
"""Kafka's error code of a log directory that has failed (KAFKA_STORAGE_ERROR)."""

MOST_LOG_DIRS: Final = 127
"""Directories of a broker beyond that number have no number: a replica in them is in none."""


class LogDirColumns(Table):
    """A log directory of a broker."""

    broker: Int32 = column("broker id")
    log_dir: Text = column("path of the directory", source="DescribeLogDirs", fill="")
    number: Int16 = column("its place among the broker's directories, sorted by path")
    volume: Int16 = column(
        "number of the first directory on the same volume: their totals are equal, and their free "
        "space was so within a minute, or nearly so all that time"
    )
    total_bytes: Int64 = column("size of its volume", source="DescribeLogDirs v4")
    usable_bytes: Int64 = column("free space of its volume", source="DescribeLogDirs v4")
    size_is_configured: Bool = column(
        "its broker does not say how large its volumes are (before Kafka 3.3): total_bytes is what "
        "is configured for all of them, and usable_bytes what logs do not take of that",
        source="configuration of kafka-twin",
        fill=False,
    )
    warn_before_ms: Int64 = column(
        "how long before it is full somebody is warned; 0: never",
        source="configuration of kafka-twin",
        fill=0,
    )
    page_before_ms: Int64 = column(
        "how long before it is full somebody is paged; 0: never",
        source="configuration of kafka-twin",
        fill=0,
    )
    error_code: Int16 = column(
        "Kafka error code of the directory, 0 for none, 56 if it has failed",
        source="DescribeLogDirs",
        fill=0,
        minus_one_is_a_value=True,
    )
    is_cordoned: Int8 = column(
        "it takes no new replicas (KIP-1066)", source="DescribeLogDirs v5", tri_state=True
    )
    replica_bytes: Int64 = column(
        "size of the replicas in it that are assigned to the broker", source="DescribeLogDirs"
    )
    future_bytes: Int64 = column(
        "size of the replicas that are being moved into it (KIP-113)", source="DescribeLogDirs"
    )
    unassigned_bytes: Int64 = column(
        "size of the logs in it of partitions that are assigned to other brokers: of nobody",
        source="DescribeLogDirs, Metadata",
    )
    unlisted_bytes: Int64 = column(
        "size of the logs in it of topics that are not observed: deleted, excluded by the "
        "configuration, or hidden from the collector's user",
        source="DescribeLogDirs, Metadata",
    )


class LogDirsFrame(Observation, LogDirColumns, kind="log_dirs"):
    """One row a log directory of a broker that answered; in one shard alone."""


class ReplicaDirsFrame(Observation, ReplicaKey, kind="replica_log_dirs"):
    """One row a replica on a broker with several log directories; not in each cycle.

    It has the replicas that are in another directory than before, and each minute all of them.
    """

    number: Int8 = column("number of its directory in `log_dirs`", source="DescribeLogDirs")


class LogDirs(KeyedTable, LogDirColumns, kind="log_dirs", version=2):
    """[K] one row a log directory, sorted by broker and number; in one shard alone."""

    observed_at_ms: Int64 = column("when its broker last listed it")


class ReplicaDirs(ReplicaTable, kind="replica_log_dirs"):
    """[P, R] in which of its broker's log directories a replica is, or was before that failed."""

    number: Int8 = column(
        "number of its directory in `log_dirs`; unknown where the broker has one directory"
    )
