"""Counts over a fleet: what a person looks at first, and what is exported whatever the size.

Totals of shards add up. Nothing unknown is counted as a number: sizes leave out what nobody told,
and say of how many replicas the coverage is assumed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

import numpy as np

from twin.fleet import Array, Fleet, empty
from twin.rules import tiering, upload
from twin.rules.balance import (
    NEVER,
    balanced,
    rack_names,
    racks_of,
    report_traffic,
    seconds_to_eligible,
)
from twin.rules.bootstrap import bootstrap
from twin.rules.coverage import held_bytes, timestamp_suspect
from twin.rules.election import LossOutcome, effective_min_isr
from twin.rules.joining import active
from twin.rules.risks import RULES as RISKS
from twin.rules.risks import expected_isr, isr_size
from twin.rules.selection import cold_reads
from twin.tables import (
    NO_BROKER,
    UNKNOWN,
    Coverage,
    Election,
    JoinPath,
    OutOfRange,
    Slot,
    StuckReason,
    Verdict,
)

RULES = ("kafka", "kip1303")
FEATURE = ("on", "off")
"""follower.fetch.last.tiered.offset.enable (KIP-1023)."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Counters by name; those of brokers, racks and topics by (name, broker) and so on."""

    cluster: Counter[str] = field(default_factory=Counter)
    risk: Counter[str] = field(default_factory=Counter)
    broker: Counter[tuple[str, int]] = field(default_factory=Counter)
    loss: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    rack: Counter[tuple[str, str]] = field(default_factory=Counter)
    reports_per_hour: Counter[str] = field(default_factory=Counter)
    join_paths: Counter[tuple[str, str]] = field(default_factory=Counter)  # (feature, path)
    join_bytes: Counter[str] = field(default_factory=Counter)
    joining: Counter[str] = field(default_factory=Counter)  # by path
    stuck: Counter[str] = field(default_factory=Counter)  # by reason
    out_of_range: Counter[str] = field(default_factory=Counter)  # by case
    shrinks: Counter[str] = field(default_factory=Counter)  # by verdict
    shrinks_kept: Counter[str] = field(default_factory=Counter)  # by KIP-501's solution 1
    seconds_to_balance: dict[str, float] = field(default_factory=dict)  # of racks: the longest
    topic: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __add__(self, other: Totals) -> Totals:
        joined: dict[str, Any] = {}
        for part in fields(Totals):
            ours, theirs = getattr(self, part.name), getattr(other, part.name)
            if isinstance(ours, Counter):
                joined[part.name] = Counter(ours)
                joined[part.name].update(theirs)
            else:
                racks = ours.keys() | theirs.keys()
                joined[part.name] = {r: max(ours.get(r, 0.0), theirs.get(r, 0.0)) for r in racks}
        return Totals(**joined)


def totals(fleet: Fleet) -> Totals:
    """All counts of one shard."""
    told = Totals()
    described = fleet.described_at_ms != UNKNOWN
    present = fleet.present
    isr, least = isr_size(fleet), effective_min_isr(fleet)
    has_leader = fleet.leader != NO_BROKER
    thin = present & (fleet.coverage == Coverage.THIN)
    for name, where in {
        "partitions": np.ones(len(fleet), bool),
        "partitions_offline": described & ~has_leader,
        "partitions_under_replicated": described & (isr < expected_isr(fleet)),
        "partitions_under_min_isr": described & (isr < least),
        "partitions_at_min_isr": described & (isr == least),
        "partitions_leader_not_preferred":
            described & has_leader & (fleet.leader != fleet.broker[:, 0]),
        "partitions_leader_thin": described & (thin & fleet.leads).any(axis=1),
        "partitions_thin_leader_kept": (fleet.election & Election.THIN_LEADER_KEPT) != 0,
        "partitions_balancer_noop": (fleet.election & Election.BALANCER_NOOP) != 0,
        "replicas": present,
        "replicas_coverage_assumed": present & (fleet.coverage == Coverage.ASSUMED),
        "replicas_local_log_unknown": present & (held_bytes(fleet) == UNKNOWN),
        "replicas_timestamp_suspect":
            present & timestamp_suspect(fleet, fleet.observed_at_ms),
    }.items():  # fmt: skip
        told.cluster[name] = int(where.sum())
    for rule in RISKS:
        told.risk[rule.name] = int(((fleet.risks & rule.risk) != 0).sum())
    _of_brokers(fleet, told, isr, least, thin)
    _of_racks(fleet, told)
    _of_joins(fleet, told)
    _of_consumers(fleet, told)
    _of_shrinks(fleet, told)
    _of_tier(fleet, told)
    for name, reports in asdict(report_traffic(fleet, fleet.observed_at_ms)).items():
        told.reports_per_hour[name] = int(reports.sum())
    _of_topics(fleet, told)
    return told


def _of_brokers(fleet: Fleet, told: Totals, isr: Array, least: Array, thin: Array) -> None:
    present = fleet.present
    size = held_bytes(fleet)
    sized = present & (size != UNKNOWN)
    lag_bytes = upload.lag_bytes(fleet)
    lags = ~np.isnan(lag_bytes) & (fleet.leader != NO_BROKER)
    # Losing the broker takes it out of the ISR: who is left must still be enough.
    needed = (
        present
        & fleet.marked(Slot.IN_ISR)
        & (isr - 1 < least)[:, None]
        & (fleet.described_at_ms != UNKNOWN)[:, None]
    )
    for broker in fleet.brokers.broker.tolist():
        for name in ("leaders", "replicas", "thin_replicas", "local_log_bytes",
                     "loss_under_min_isr_partitions", "cold_read_partitions",
                     "isr_shrinks_recent", "upload_lag_bytes"):  # fmt: skip
            told.broker[name, broker] = 0
        for rule in RULES:
            for outcome in LossOutcome:
                told.loss[broker, rule, outcome.name.lower()] = 0
    for name, brokers, weights in (
        ("leaders", fleet.leader[fleet.leader != NO_BROKER], None),
        ("replicas", fleet.broker[present], None),
        ("thin_replicas", fleet.broker[thin], None),
        ("local_log_bytes", fleet.broker[sized], size[sized]),
        ("upload_lag_bytes", fleet.leader[lags], np.rint(lag_bytes[lags]).astype(np.int64)),
        ("loss_under_min_isr_partitions", fleet.broker[needed], None),
    ):
        for broker, count in _summed(brokers, weights):
            told.broker[name, broker] = count
    kinds = len(LossOutcome)
    for rule in RULES:
        outcome = getattr(fleet, f"next_outcome_{rule}").astype(np.int64)
        led = (fleet.leader != NO_BROKER) & (outcome != UNKNOWN)
        for key, count in _summed(fleet.leader[led].astype(np.int64) * kinds + outcome[led], None):
            broker, which = divmod(key, kinds)
            told.loss[broker, rule, LossOutcome(which).name.lower()] = count


def _of_racks(fleet: Fleet, told: Totals) -> None:
    """Leaders by rack, now and once leaders are balanced under either rule; thin replicas 0."""
    names = rack_names(fleet)
    then = balanced(fleet)
    thin = (fleet.coverage[:, 0] == Coverage.THIN) & fleet.present[:, 0]
    heals_in = seconds_to_eligible(fleet, fleet.observed_at_ms)[:, 0]
    for name, brokers in (
        ("leaders_now", fleet.leader),
        ("leaders_kafka", then.kafka),
        ("leaders_kip1303", then.kip1303),
        ("preferred_thin", fleet.broker[thin, 0]),
        ("preferred_never_eligible", fleet.broker[thin & (heals_in == NEVER), 0]),
        ("preferred_eligible_unknown", fleet.broker[thin & np.isnan(heals_in), 0]),
    ):
        rack = racks_of(fleet, brokers)
        counts = np.bincount(rack[rack != UNKNOWN], minlength=len(names))
        for rack_name, count in zip(names, counts.tolist(), strict=True):
            told.rack[name, rack_name] = count
    preferred = racks_of(fleet, fleet.broker[:, 0])
    waits = thin & np.isfinite(heals_in)
    for i, rack_name in enumerate(names):
        here = heals_in[waits & (preferred == i)]
        told.seconds_to_balance[rack_name] = float(here.max(initial=0.0))


def _of_joins(fleet: Fleet, told: Totals) -> None:
    """What empty followers would do with the feature on and off, and who is joining."""
    for feature in FEATURE:
        found = bootstrap(fleet, feature == "on")
        for path in JoinPath:
            told.join_paths[feature, path.name.lower()] = int((found.path == path).sum())
        # Whole bytes, so shards add up; partitions of unknown size are left out.
        told.join_bytes[feature] = int(np.rint(np.nan_to_num(found.bytes)).sum())
    of = active(fleet)
    told.joining["unknown"] = int((of.path == UNKNOWN).sum())
    for path in (JoinPath.FROM_ZERO, JoinPath.FROM_LOCAL_START, JoinPath.FROM_PENDING_UPLOAD):
        told.joining[path.name.lower()] = int((of.path == path).sum())
    for reason in StuckReason:
        told.stuck[reason.name.lower()] = int((of.stuck == reason).sum())


def _of_consumers(fleet: Fleet, told: Totals) -> None:
    """Who would read from remote storage for no need, and who would be told out of range."""
    for case in OutOfRange:
        told.out_of_range[str(case.name).lower()] = int(((fleet.out_of_range & case) != 0).sum())
    found = cold_reads(fleet, fleet.observed_at_ms)
    for broker, count in _summed(found.broker[found.broker != NO_BROKER], None):
        told.broker["cold_read_partitions", broker] = count


def _of_shrinks(fleet: Fleet, told: Totals) -> None:
    """Shrinks of the window, by verdict and by what KIP-501 would have done."""
    of = fleet.shrinks
    for verdict in Verdict:
        told.shrinks[verdict.name.lower()] = int((of.verdict == verdict).sum())
    for name, value in (("yes", 1), ("no", 0), ("unknown", UNKNOWN)):
        told.shrinks_kept[name] = int((of.kept_by_solution_1 == value).sum())
    told.cluster["isr_flaps"] = int((of.back_at_ms != UNKNOWN).sum())
    for leader, count in _summed(of.leader[of.leader != NO_BROKER], None):
        told.broker["isr_shrinks_recent", leader] = count


def _of_tier(fleet: Fleet, told: Totals) -> None:
    """Remote segments of the partitions of which they are known."""
    of = fleet.lineage
    for name, counts in (
        ("partitions_with_known_segments", np.ones(len(of), np.int64)),
        ("remote_log_bytes", of.remote_bytes),
        ("remote_lineage_bytes", of.lineage_bytes),
        ("orphan_segments", of.orphan_segments),
        ("orphan_bytes", of.orphan_bytes),
        ("dangling_uploads", of.dangling_segments),
        ("tier_overlaps", of.overlaps),
        ("segment_transitions_refused", of.refused_transitions),
    ):
        told.cluster[name] = int(counts.sum())
    told.cluster["tier_gaps"] = int(tiering.gaps(fleet).sum())


def _of_topics(fleet: Fleet, told: Totals) -> None:
    size = held_bytes(fleet)
    known = np.where(fleet.present & (size != UNKNOWN), size, 0).sum(axis=1)
    topics = len(fleet.topics.topic)
    for name, weights in (
        ("partitions", np.ones(len(fleet))),
        ("partitions_at_risk", fleet.risks != 0),
        ("local_log_bytes", known),
        ("cold_read_records", fleet.cold_read_records),
    ):
        counts = np.zeros(topics, np.int64)
        np.add.at(counts, fleet.topic_index, np.asarray(weights).astype(np.int64))
        for topic, count in zip(fleet.topics.topic, counts.tolist(), strict=True):
            told.topic[name, topic] = count
    # A threshold is the topic's, so the highest of its partitions is that of each.
    for name, setting, unit in (
        ("eligible_local_log_seconds", "eligible_local_log_ms", 1_000),
        ("eligible_local_log_bytes", "eligible_local_log_bytes", 1),
    ):
        value = np.zeros(topics, np.int64)
        np.maximum.at(value, fleet.topic_index, fleet.topic_setting(setting))
        for topic, threshold in zip(fleet.topics.topic, value.tolist(), strict=True):
            if threshold > 0:
                told.topic[name, topic] = threshold // unit


def _summed(keys: Array, weights: Array | None) -> list[tuple[int, int]]:
    """(key, times it occurs or sum of its weights), in integers: a float would round sizes."""
    distinct, at = np.unique(keys, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, at, 1 if weights is None else weights)
    return list(zip(distinct.tolist(), sums.tolist(), strict=True))


COUNTS: Final = tuple(totals(empty("", 0, 1)).cluster)
"""The names of a cluster's counts."""
