"""How long a partition's segment is written until the next one begins."""

from __future__ import annotations

import numpy as np

from twin.declarations.table import Float64, Int64
from twin.rules.partitions.growth import Growth, RecordSizes
from twin.rules.partitions.topic_configs import TopicConfigs


def segment_time_s(
    row: Int64 | slice, configs: TopicConfigs, growth: Growth, sizes: RecordSizes
) -> Float64:
    """[N] how long a segment of those partitions is written; inf without a limit that is known."""
    age_ms, size = configs.segment_ms[row], configs.segment_bytes[row]
    written = growth.appended_records_per_s[row] * sizes.bytes_per_record[row]
    with np.errstate(divide="ignore", invalid="ignore"):
        by_size = np.where((size > 0) & (written > 0), size / written, np.inf)
    by_age = np.where(age_ms > 0, age_ms / 1_000, np.inf)
    return np.minimum(by_age, by_size)
