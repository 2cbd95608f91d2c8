"""Log directories that have failed: their broker goes on, and their replicas are offline.

A broker takes a directory out of use at the first error of reading or writing there, as of a broken
disk or of a full one, and until it is restarted (KIP-112). It ends itself if that was its last
directory, or the one with the metadata log.

Source: LogManager.handleLogDirFailure and ReplicaManager.describeLogDirs, Kafka 4.3.
"""

from __future__ import annotations

import numpy as np

from twin.cluster_rules.disks.dir_contents import LogDirUse
from twin.declarations.declare import Alert, risk
from twin.declarations.results import ByBroker
from twin.declarations.table import UNKNOWN
from twin.rules.brokers.log_dirs import STORAGE_ERROR


@risk(
    "log_dir_failed",
    rank=46,
    severity="warn",
    per="broker",
    close_after_ms=60_000,
    sentence="a log directory of it has failed: the replicas there are offline until it is "
    "restarted",
    source="DescribeLogDirs, KAFKA_STORAGE_ERROR; KIP-112",
    alert=Alert(
        summary="have a log directory that has failed",
        description="A log directory of {n} brokers of {cluster} has failed. The replicas there "
        "are offline; a broker that loses its last directory stops.",
        wait="1m",
        keep_firing_for="5m",
    ),
)
def has_failed_log_dir(use: LogDirUse) -> ByBroker:
    """Unknown of a broker that has not listed its directories for a minute."""
    broker, at = np.unique(use.broker, return_inverse=True)
    is_failed = np.bincount(at, use.error_code == STORAGE_ERROR, minlength=len(broker)) > 0
    is_late = np.bincount(at, ~use.is_current, minlength=len(broker)) > 0
    return ByBroker(broker, np.where(is_late, UNKNOWN, is_failed.astype(np.int64)))
