"""What uploads of a partition do, and so what is normal for its offsets.

Source: RemoteLogManager.RLMCopyTask and UnifiedLog.isSegmentEligibleForDeletion, Kafka 4.3; KIP-950
(copies disabled), KIP-1241 (uploads that wait).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import numpy as np

from twin.declarations.declare import gauge, rule
from twin.declarations.table import UNKNOWN, Bool, Int8, Int64, PartitionTable, Rows, column
from twin.rules.partitions.leaders import Leaders
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.tables.enums import NOT_SET, PendingUpload


class TierState(IntEnum):
    """What uploads of a partition do."""

    NOT_TIERED = 0
    UPLOADED = 1  # something is in remote storage, and what follows it is uploaded in turn
    NOTHING_UPLOADED = 2  # the leader answers that nothing is in remote storage
    BEGINS_AGAIN = 3  # remote storage ends below the log start: the next upload begins there
    DELAYED = 4  # closed segments wait for their upload on purpose
    COPIES_DISABLED = 5  # nothing more is uploaded, and retention does not wait for it


class TierStates(
    PartitionTable, kind="tier_state", api="", on_demand="a comparison of stored columns"
):
    """[P] what uploads of each partition do."""

    tier_state: Int8 = column(
        "`not_tiered`; `uploaded`: something is in remote storage; `nothing_uploaded`: its leader "
        "has nothing there; `begins_again`: what is there ends below the log start, since records "
        "were deleted by request or the topic was not tiered for a while; `delayed`: segments wait "
        "for their upload on purpose (KIP-1241); `copies_disabled`: nothing more is uploaded "
        "(KIP-950); null where the leader or the settings do not say",
        enum=TierState,
    )


@rule
def tier_states(leaders: Leaders, configs: TopicConfigs) -> TierStates:
    """The first that fits; unknown where the leader does not report what is tiered.

    Unknown, too, where a setting that decides is: all of them before they are read, and
    remote_storage of a topic that is tiered and compacted, of which nothing is judged (KIP-1272).
    """
    tiered, start = leaders.last_tiered_offset, leaders.log_start_offset
    state = np.select(
        [
            configs.remote_storage == 0,
            configs.remote_storage != 1,
            configs.copies_disabled == 1,
            configs.copies_disabled != 0,
            has_nothing_uploaded(leaders),
            tiered == UNKNOWN,
            (start != UNKNOWN) & (tiered + 1 < start),
            uploads_wait(configs),
            uploads_at_once(configs),
        ],
        [
            TierState.NOT_TIERED,
            UNKNOWN,
            TierState.COPIES_DISABLED,
            UNKNOWN,
            TierState.NOTHING_UPLOADED,
            UNKNOWN,
            TierState.BEGINS_AGAIN,
            TierState.DELAYED,
            TierState.UPLOADED,
        ],
        UNKNOWN,
    )
    return TierStates(state.astype(np.int8))


def has_nothing_uploaded(leaders: Leaders, row: Rows | slice = slice(None)) -> Bool:
    """[N] the leaders of those partitions answer that nothing of the log is in remote storage."""
    # With its whole log on disk a leader answers -6 with the log start, and -5 with nothing.
    pending, tiered = leaders.pending_upload[row], leaders.last_tiered_offset[row]
    says_pending: Bool = (pending == PendingUpload.KNOWN) & (tiered == UNKNOWN)
    return says_pending | (pending == PendingUpload.NOTHING_TIERED)


def remote_ends(leaders: Leaders, row: Rows | slice = slice(None)) -> Int64:
    """[N] the offset after the last one in remote storage: the log start where nothing is there.

    Unknown where the leader does not say. It is below the log start where records were deleted that
    were not uploaded.
    """
    tiered, has_nothing = leaders.last_tiered_offset[row], has_nothing_uploaded(leaders, row)
    if_nothing = np.where(has_nothing, leaders.log_start_offset[row], UNKNOWN)
    return np.where(tiered == UNKNOWN, if_nothing, tiered + 1)


def uploads_wait(configs: TopicConfigs) -> Bool:
    """[P] closed segments are known to wait for their upload: no limit of the wait is 0."""
    waits: Bool = ~uploads_at_once(configs)
    waits &= (configs.upload_delay_ms != NOT_SET) & (configs.upload_delay_bytes != NOT_SET)
    return waits


def uploads_at_once(configs: TopicConfigs) -> Bool:
    """[P] closed segments are known to be due at once: a limit of 0 ends the wait."""
    at_once: Bool = (configs.upload_delay_ms == 0) | (configs.upload_delay_bytes == 0)
    return at_once


@gauge(
    "partitions_by_tier_state",
    "Partitions by what their uploads do: not_tiered, uploaded, nothing_uploaded, begins_again, "
    "delayed, copies_disabled, or unknown.",
    labels=("state",),
)
def partitions_by_tier_state(states: TierStates) -> Mapping[tuple[str], int]:
    """The partitions by state, also of states without partitions."""
    counts = {(s.name.lower(),): int((states.tier_state == s).sum()) for s in TierState}
    return counts | {("unknown",): int((states.tier_state == UNKNOWN).sum())}
