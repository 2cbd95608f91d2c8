"""How observations change a state: one file a kind of frame.

The laws, each a property test:
    * a frame older than the newest cycle seen changes nothing; nor does one seen again
    * frames of one cycle give the same state in any order
    * of two views of a partition the higher leader epoch wins, then the later one: a resumed
      leader answers from stale state for up to 100 ms (measured)
    * a recreated topic has a new id and starts anew
    * a partition disappears only when a whole listing no longer has it; so does a broker, and
      before Kafka 4.0, where no listing of brokers is whole, a day after it was listed last
    * a group disappears only when a complete listing no longer has it; an offset of a group, when
      the group's offsets were read without it
    * what did not answer keeps its last values and ages
"""

from __future__ import annotations

from twin.ingest import (
    broker_metrics,
    brokers,
    configs,
    fetches,
    groups,
    isr_changes,
    partitions,
    pending_upload_lookups,
    problems,
    quorum,
    replicas,
    shard_reports,
)

MODULES = (
    brokers,
    quorum,
    problems,
    configs,
    partitions,
    replicas,
    fetches,
    isr_changes,
    pending_upload_lookups,
    broker_metrics,
    groups,
    shard_reports,
)
