"""A report as plain data. Null is unknown, and never zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

Certainty = Literal["certain", "inferred"]
"""Certain: the same cycle, and an entity that the event names. Inferred: near in time."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened, or several of one kind."""

    at_ms: Annotated[int, Meta(description="the first of them, the moment that the line links to")]
    until_ms: Annotated[int, Meta(description="the last of them")]
    kind: str
    text: str
    count: int
    names: Annotated[tuple[str, ...], Meta(description="the first of what it is about")]


@dataclass(frozen=True, slots=True)
class Effect:
    """What followed from a cause, directly or by the effect above it."""

    line: Line
    depth: Annotated[int, Meta(description="1 below the cause, 2 below such an effect, and so on")]
    because: Annotated[str, Meta(description="kind of what it followed from")]
    certainty: Certainty


@dataclass(frozen=True, slots=True)
class Incident:
    """A cause, and what followed from it in order of time."""

    cause: Line
    effects: list[Effect]


@dataclass(frozen=True, slots=True)
class Standing:
    """How the cluster was at a moment."""

    at_ms: int
    complete: bool
    partitions: int
    not_described: Annotated[int, Meta(description="partitions of which that is not known")]
    offline: int
    under_min_isr: int
    at_risk: Annotated[int, Meta(description="partitions with any risk that is open")]
    risks: Annotated[dict[str, int], Meta(description="partitions by risk, where there are any")]
    brokers_down: Annotated[list[int], Meta(description="fenced, or not listed")]
    brokers_silent: Annotated[list[int], Meta(description="not down, and without an answer")]
    lag_records: Annotated[int | None, Meta(description="of all groups in use, as far as known")]


@dataclass(frozen=True, slots=True)
class RecordsLostInSpan:
    """Records that producers may have had acknowledged, and that are lost."""

    records: int | None
    is_lower_bound: bool
    elections: int
    unknown_elections: Annotated[
        int, Meta(description="elections of a replica out of sync whose loss is not known")
    ]


@dataclass(frozen=True, slots=True)
class RemoteReads:
    """Bytes that brokers read from remote storage for consumers, by their own rates."""

    read_bytes: int | None
    is_lower_bound: Annotated[bool, Meta(description="some broker was not measured all the time")]


@dataclass(frozen=True, slots=True)
class SufferingGroup:
    """A group that was hurt in the span: the number of its partitions by kind of harm."""

    group: str
    at_ms: int
    partitions: Annotated[
        dict[str, int],
        Meta(description="`nobody`, `nowhere`, `ahead`, `remote`, as `reads_from` of a group"),
    ]


@dataclass(frozen=True, slots=True)
class BlastRadius:
    """The extent of the damage. Each cycle counts for the time until the next one."""

    offline_partition_s: float
    under_min_isr_partition_s: float | None
    under_min_isr_unknown_partitions: Annotated[
        int, Meta(description="the most partitions at once whose min.insync.replicas is unknown")
    ]
    observed_s: Annotated[float, Meta(description="seconds of the span that cycles stand for")]
    not_observed_s: Annotated[float, Meta(description="seconds of which nothing is known")]
    offline_partitions: Annotated[int, Meta(description="different partitions that were offline")]
    under_min_isr_partitions: int
    records_lost: RecordsLostInSpan
    groups_hurt: Annotated[int | None, Meta(description="null if no group was observed")]
    groups: Annotated[list[SufferingGroup], Meta(description="the first of them")]
    remote_reads: RemoteReads


@dataclass(frozen=True, slots=True)
class ForetoldLeader:
    """A leader that was lost, and the one that was predicted for that."""

    at_ms: int
    topic: str
    partition: int
    lost: int
    predicted: int
    elected: int
    result: Literal["right", "wrong", "overtaken", "unforeseen"]
    stood_s: Annotated[
        float | None, Meta(description="for how long the prediction had stood until the loss")
    ]
    stood_longer: Annotated[bool, Meta(description="it stood already when the span began")]


@dataclass(frozen=True, slots=True)
class Foretold:
    """What the twin had predicted for the losses of leaders."""

    losses: int
    right: int
    wrong: int
    overtaken: Annotated[int, Meta(description="something else changed since the last cycle")]
    unforeseen: int
    shortest_s: Annotated[
        float | None, Meta(description="the least time that a right prediction had stood")
    ]
    median_s: float | None
    leaders: Annotated[
        list[ForetoldLeader], Meta(description="the first of them; wrong ones first")
    ]


@dataclass(frozen=True, slots=True)
class OtherRule:
    """What another election rule would have done at the same losses, one decision at a time."""

    rule: str
    title: str
    judged: Annotated[int, Meta(description="losses at which Kafka's own rule was predicted right")]
    not_judged: int
    other_leader: int
    warm_for_cold: Annotated[int, Meta(description="a replica that is not cold in place of one")]
    leader_for_nobody: int
    clean_for_unclean: int
    shrinks_avoided: Annotated[
        int | None, Meta(description="replicas that would have stayed in the ISR; KIP-501 alone")
    ]


@dataclass(frozen=True, slots=True)
class Unalerted:
    """A risk that opened in the span without an alert that fired."""

    risk: str
    severity: str
    at_ms: int
    lasted_s: Annotated[float, Meta(description="until it was gone, or the span ended")]
    is_over: bool
    most: Annotated[int, Meta(description="the most partitions or brokers at once")]
    why: str


DiskEnd = Literal["open", "freed", "full", "failed", "broker_lost"]
"""Full, failed or lost with its broker; freed: it was foretold no longer; open: none of these."""


@dataclass(frozen=True, slots=True)
class DiskForetold:
    """When a disk was foretold to be full, at some moment before it was."""

    when: Annotated[str, Meta(description="`began`, `warned`, `paged`, or `half_way` to its end")]
    at_ms: int
    earliest_ms: Annotated[int | None, Meta(description="null: not in sight, or unknown")]
    latest_ms: Annotated[int | None, Meta(description="null: not in sight, or unknown")]
    off_s: Annotated[
        float | None,
        Meta(
            description="from the nearer bound to when it was full, 0 between them, below 0 where "
            "it was full before both; null if it was not full"
        ),
    ]


@dataclass(frozen=True, slots=True)
class FillingDisk:
    """A disk that was foretold to be full within `[disk] warn_before_ms`."""

    broker: int
    log_dir: str
    total_bytes: int
    least_usable_bytes: Annotated[int, Meta(description="the least that was free")]
    began_at_ms: Annotated[int, Meta(description="the first cycle of the span that foretold it")]
    warned_at_ms: Annotated[int | None, Meta(description="its broker had an open risk since")]
    paged_at_ms: Annotated[int | None, Meta(description="its broker had `disk_full_soon` since")]
    end: DiskEnd
    end_at_ms: Annotated[int | None, Meta(description="the first cycle after that")]
    foretold: list[DiskForetold]


@dataclass(frozen=True, slots=True)
class StorageOutage:
    """A time in which uploads to remote storage were due and did not come."""

    since_ms: Annotated[int | None, Meta(description="the last upload before it")]
    found_at_ms: int
    paged_at_ms: Annotated[int | None, Meta(description="`remote_storage_failing` was open since")]
    until_ms: Annotated[int | None, Meta(description="null: it went on when the span ended")]
    brokers: Annotated[list[int], Meta(description="whose uploads did not come")]
    most_partitions: Annotated[int, Meta(description="that were late at once")]
    most_waiting_bytes: int


@dataclass(frozen=True, slots=True)
class Series:
    """Numbers of each cycle, for pictures."""

    at_ms: list[int]
    offline: list[int]
    under_min_isr: list[int]
    at_risk: list[int]
    brokers_down: list[int]


@dataclass(frozen=True, slots=True)
class Report:
    """What happened between two moments."""

    cluster: str
    begin_ms: int
    end_ms: int
    cycles: int
    resolution_ms: int
    summary: Annotated[list[str], Meta(description="the most important sentences")]
    blast_radius: BlastRadius
    before: Standing
    worst: Annotated[Standing | None, Meta(description="null if nothing was wrong at any time")]
    after: Standing
    incidents: Annotated[list[Incident], Meta(description="in order of time")]
    no_cause: Annotated[
        list[Line], Meta(description="what happened and followed from nothing known")
    ]
    foretold: Foretold
    remote_storage: list[StorageOutage]
    disks: list[FillingDisk]
    unalerted: list[Unalerted]
    people: Annotated[list[Line], Meta(description="what people changed, or programs for them")]
    other_rules: list[OtherRule]
    not_known: list[str]
    series: Series
