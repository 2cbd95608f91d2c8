"""The rules: one idea a file, with its tables, metrics, risks, events and API fields.

``MODULES`` lists them. The order in which they run follows from what they read.
"""

from __future__ import annotations

from twin.rules import (
    balance,
    bootstrap,
    brokers,
    catching_up,
    coverage,
    growth,
    isr,
    isr_shrinks,
    leaders,
    lineage,
    next_leader,
    out_of_range,
    partition_events,
    racks,
    replication,
    selection,
    skipped_frames,
    staleness,
    topic_configs,
    upload,
    warm_up,
)

MODULES = (
    topic_configs,
    leaders,
    isr,
    replication,
    growth,
    coverage,
    next_leader,
    racks,
    balance,
    warm_up,
    bootstrap,
    catching_up,
    isr_shrinks,
    upload,
    selection,
    out_of_range,
    lineage,
    brokers,
    partition_events,
    staleness,
    skipped_frames,
)
