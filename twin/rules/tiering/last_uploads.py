"""When remote storage of each partition was last seen to end further than before, and how fast it
grows.

A leader may know less than the one before it for a while, so only an end beyond all earlier ones
counts. A log of which nothing is uploaded ends there where it starts, and that moves without an
upload.

Uploads come segment by segment and in rounds, so their rate is an average over a minute, or over
the time between two uploads where that is longer.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.declarations.declare import rule
from twin.declarations.signature import Before
from twin.declarations.table import UNKNOWN, Float64, Int64, PartitionTable, Rows, column
from twin.rules.partitions.leaders import Leaders
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.tier_states import remote_ends

AVERAGED_MS: Final = 60_000
"""Two rounds of RemoteLogManager's task."""

STOPPED: Final = 2
"""Uploads have stopped if none came for so many times the last pause, or AVERAGED_MS."""


class LastUploads(PartitionTable, kind="last_uploads"):
    """[P] the newest upload of each partition; unknown where nothing is tiered."""

    end_offset: Int64 = column("the furthest end of remote storage so far")
    at_ms: Int64 = column("first sample with it; unknown before the twin has seen an upload")
    pause_ms: Int64 = column("time between the last two uploads; unknown before there are two")
    records_per_s: Float64 = column("average up to the last upload; unknown before there are two")

    def records_per_s_now(self, leaders: Leaders, row: Rows) -> Float64:
        """[N] records uploaded a second: less while none comes; 0 before two were seen."""
        since_ms = leaders.sampled_at_ms[row] - self.at_ms[row]
        pause_ms = np.maximum(self.pause_ms[row], AVERAGED_MS)
        share = np.minimum(pause_ms / np.maximum(since_ms, 1), 1)
        has_stopped = (self.records_per_s[row] == UNKNOWN) | (since_ms > STOPPED * pause_ms)
        return np.where(has_stopped, 0.0, self.records_per_s[row] * share)


@rule
def last_uploads(
    before: Before[LastUploads], leaders: Leaders, configs: TopicConfigs
) -> LastUploads:
    """The table as it was, unless some remote log has grown."""
    ends = remote_ends(leaders)
    row = np.flatnonzero((ends > before.end_offset) & (configs.remote_storage == 1))
    if not len(row):
        return before
    end, at_ms, pause_ms, per_s = (values.copy() for values in before.values())
    is_upload = (end[row] != UNKNOWN) & (leaders.last_tiered_offset[row] != UNKNOWN)
    uploaded = row[is_upload]
    records = ends[uploaded] - end[uploaded]
    end[row] = ends[row]
    now_ms = leaders.sampled_at_ms[uploaded]
    took_ms = np.where(at_ms[uploaded] != UNKNOWN, now_ms - at_ms[uploaded], UNKNOWN)
    per_s[uploaded] = _average(per_s[uploaded], records, took_ms)
    pause_ms[uploaded], at_ms[uploaded] = took_ms, now_ms
    return LastUploads(end, at_ms, pause_ms, per_s)


def _average(before: Float64, records: Int64, took_ms: Int64) -> Float64:
    """[N] records a second, weighted by time; unknown where it is how long these took."""
    known = took_ms > 0
    is_first = before == UNKNOWN
    # Nobody knows how long nothing came before the first of them.
    over_ms = np.where(known, np.where(is_first, np.maximum(took_ms, AVERAGED_MS), took_ms), 1)
    lately = records * 1_000 / over_ms
    weight = np.where(is_first, 0, np.exp(-over_ms / AVERAGED_MS))
    average = weight * before + (1 - weight) * lately
    return np.where(known, _rounded(average), UNKNOWN)


def _rounded(values: Float64) -> Float64:
    """[N] with twelve significant bits: it is known no better, and takes little on the bus so."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.rint(mantissa * 4096) / 4096, exponent)
