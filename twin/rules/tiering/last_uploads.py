"""When remote storage of each partition was last seen to end further than before.

A leader may know less than the one before it for a while, so only an end beyond all earlier ones
counts. A log of which nothing is uploaded ends there where it starts, and that moves without an
upload.
"""

from __future__ import annotations

import numpy as np

from twin.declarations.declare import rule
from twin.declarations.signature import Before
from twin.declarations.table import UNKNOWN, Int64, PartitionTable, column
from twin.rules.partitions.leaders import Leaders
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.tier_states import remote_ends


class LastUploads(PartitionTable, kind="last_uploads"):
    """[P] the newest upload of each partition; unknown where nothing is tiered."""

    end_offset: Int64 = column("the furthest end of remote storage so far")
    at_ms: Int64 = column("first sample with it; unknown before the twin has seen an upload")
    pause_ms: Int64 = column("time between the last two uploads; unknown before there are two")


@rule
def last_uploads(
    before: Before[LastUploads], leaders: Leaders, configs: TopicConfigs
) -> LastUploads:
    """The table as it was, unless some remote log has grown."""
    tiered = np.flatnonzero(configs.remote_storage == 1)
    ends = remote_ends(leaders, tiered)
    is_further = ends > before.end_offset[tiered]
    row = tiered[is_further]
    if not len(row):
        return before
    end, at_ms, pause_ms = (values.copy() for values in before.values())
    is_upload = (end[row] != UNKNOWN) & (leaders.last_tiered_offset[row] != UNKNOWN)
    end[row] = ends[is_further]
    uploaded = row[is_upload]
    now_ms = leaders.sampled_at_ms[uploaded]
    had_one = at_ms[uploaded] != UNKNOWN
    pause_ms[uploaded] = np.where(had_one, now_ms - at_ms[uploaded], UNKNOWN)
    at_ms[uploaded] = now_ms
    return LastUploads(end, at_ms, pause_ms)
