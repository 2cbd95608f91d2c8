"""Where an empty follower that joined now would start, and what that costs (KIP-1023).

A follower begins at offset 0. A leader that still has offset 0 on disk simply sends it, so the
feature never comes into play; any other leader answers that the offset moved to remote storage or
is out of range, and the follower chooses where to start: at the leader's local log start, or, with
``follower.fetch.last.tiered.offset.enable``, at its earliest pending upload offset (ListOffsets
-6). What the leader answers to -6 is observed, not guessed: the collector asks as a follower would.

Source: AbstractFetcherThread.fetchOffsetAndTruncate and handleOffsetsMovedToTieredStorage,
ReplicaFetcherThread.shouldFetchFromLastTieredOffset, TierStateMachine.start, Kafka 4.3; the paths
that fail were measured on Kafka 4.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twin.fleet import Array, Fleet
from twin.rules.growth import bytes_per_record
from twin.tables import UNKNOWN, JoinPath, PendingUpload


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """[P] what an empty follower would do. Unknown is UNKNOWN, or NaN for the estimate of bytes.

    Remote storage gives it the auxiliary state (epochs, producers) of ``log_start_offset`` to
    ``start_offset``, where the latter is higher; it copies ``start_offset`` to the leader's log
    end.
    """

    path: Array  # JoinPath
    log_start_offset: Array
    start_offset: Array
    records: Array  # to copy from the leader
    bytes: NDArray[np.float64]  # an estimate, at the size of the leader's local records


def bootstrap(fleet: Fleet, last_tiered_fetch: bool) -> Bootstrap:
    """What an empty follower would do with the feature on or off.

    The path is UNKNOWN where the leader, or its answer to -6, is. Paths that cannot start now (see
    JoinPath) have no start offset.
    """
    start = fleet.of_leader(fleet.log_start_offset)
    local = fleet.of_leader(fleet.local_log_start_offset)
    end = fleet.of_leader(fleet.log_end_offset)
    known = (start != UNKNOWN) & (local != UNKNOWN) & (end != UNKNOWN)

    path = np.where(local == 0, JoinPath.FROM_ZERO, JoinPath.FROM_LOCAL_START)
    begins = local
    if last_tiered_fetch:
        applies = (local > 0) & (end > 0) & applies_to(fleet)
        tiered_path, tiered_start = _with_feature(fleet, start, local)
        path = np.where(applies, tiered_path, path)
        begins = np.where(applies, tiered_start, begins)
    path = np.where(known, path, UNKNOWN)
    begins = np.where(path == UNKNOWN, UNKNOWN, begins)
    records = np.where(begins == UNKNOWN, UNKNOWN, np.maximum(end - begins, 0))
    sized = np.where(records == 0, 0.0, records * bytes_per_record(fleet))
    return Bootstrap(
        path=path.astype(np.int8),
        log_start_offset=np.where(known, start, UNKNOWN),
        start_offset=begins,
        records=records,
        bytes=np.where(records == UNKNOWN, np.nan, sized),
    )


def applies_to(fleet: Fleet) -> NDArray[np.bool_]:
    """[P] the topic is one the feature concerns: tiered and not compacted."""
    concerned: NDArray[np.bool_] = (fleet.topic_setting("remote_storage") == 1) & (
        fleet.topic_setting("compacted") != 1
    )
    return concerned


def cannot_start(path: Array) -> NDArray[np.bool_]:
    """The path fails until something else happens. Any shape."""
    fails: NDArray[np.bool_] = path >= JoinPath.NOTHING_TIERED_YET
    return fails


def as_configured(fleet: Fleet) -> Bootstrap:
    """What an empty follower would do as the cluster is configured; unknown counts as off."""
    return bootstrap(fleet, fleet.setting("last_tiered_fetch") == 1)


def saved_share(on: Bootstrap, off: Bootstrap) -> NDArray[np.float64]:
    """[P] share of the records that the feature spares, 0 to 1; NaN where either is unknown."""
    known = (on.records != UNKNOWN) & (off.records != UNKNOWN)
    spared = off.records - on.records
    share = spared / np.maximum(off.records, 1)
    return np.where(known, share, np.nan)


def join_seconds(of: Bootstrap, bytes_per_second: float) -> NDArray[np.float64]:
    """[P] time to copy at that rate; NaN where the bytes are unknown.

    Raises:
        ValueError: the rate is not positive.
    """
    if bytes_per_second <= 0:
        raise ValueError(f"bytes_per_second is {bytes_per_second}")
    return of.bytes / bytes_per_second


def follower_start_offset(
    answer: NDArray[np.int64], log_start: NDArray[np.int64], local_start: NDArray[np.int64]
) -> NDArray[np.int64]:
    """[P] where a follower with the feature on decides to start, UNKNOWN where it tries again.

    Args:
        answer: the leader's answer to -6, -1 for none.
        log_start: the leader's log start offset.
        local_start: the leader's local log start offset.

    Source: AbstractFetcherThread.fetchEarliestPendingUploadOffset.
    """
    whole = local_start == log_start  # nothing lies before the local log, so it may start there
    return np.where(answer >= 0, answer, np.where(whole, local_start, UNKNOWN))


def _with_feature(fleet: Fleet, start: Array, local: Array) -> tuple[Array, Array]:
    """[P] path and start offset where the follower asks for -6.

    It builds its auxiliary state from the remote segment that holds the offset before its start,
    and fails while there is none: at a log start above the tier, although KIP-1023 says to truncate
    and copy there (measured).
    """
    reason = fleet.of_leader(fleet.pending_upload)
    last_tiered = fleet.of_leader(fleet.last_tiered_offset)
    begins = follower_start_offset(fleet.of_leader(fleet.pending_upload_offset), start, local)
    builds = (begins > start) & (begins <= last_tiered + 1)
    path = np.select(
        [
            (reason == PendingUpload.ABSENT) | (reason == UNKNOWN),
            (begins == UNKNOWN) & (reason == PendingUpload.ALL_TIERED),
            begins == UNKNOWN,
            builds,
            last_tiered == UNKNOWN,
            last_tiered + 1 <= start,
        ],
        [
            UNKNOWN,
            JoinPath.STUCK_IDLE,
            JoinPath.LEADER_LEARNING,
            JoinPath.FROM_PENDING_UPLOAD,
            JoinPath.NOTHING_TIERED_YET,
            JoinPath.BELOW_LOG_START,
        ],
        # All is tiered and all is still local: it depends on where the remote segments end.
        UNKNOWN,
    )
    return path, np.where(path == JoinPath.FROM_PENDING_UPLOAD, begins, UNKNOWN)
