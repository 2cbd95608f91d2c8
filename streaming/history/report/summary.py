"""The most important sentences of a report."""

from __future__ import annotations

from collections.abc import Sequence

from streaming.history.report.incidents import Told
from streaming.history.report.model import BlastRadius, FillingDisk, Foretold, Standing
from streaming.runtime.quantities import duration_text
from twin.arrays.plain import counted


def summary(
    blast: BlastRadius, timeline: Told, foretold: Foretold, disks: Sequence[FillingDisk],
    worst: Standing | None,
) -> list[str]:  # fmt: skip
    """What to read if nothing else is read."""
    lines = []
    if not timeline.incidents and not timeline.no_cause:
        lines.append("Nothing happened that was recorded.")
    elif timeline.incidents:
        first = timeline.incidents[0].cause.text
        more = len(timeline.incidents) - 1
        also = f", and {counted(more, 'more cause')} are in the timeline" if more > 1 else ""
        also = also or (", and one more cause is in the timeline" if more else "")
        lines.append(f"{first[:1].upper()}{first[1:]}{also}.")
    else:
        lines.append("Things happened, and no cause of them was found.")
    lines.append(_harm(blast))
    if foretold.losses:
        lines.append(
            f"{counted(foretold.losses, 'leader was', 'leaders were')} lost; of "
            f"{foretold.right} the twin had predicted who leads next."
        )
    lines += [_full(each) for each in disks if each.end in ("full", "failed", "broker_lost")]
    if worst is None:
        lines.append("At no time was a partition offline, under min ISR or at risk.")
    return lines


def _full(disk: FillingDisk) -> str:
    end_ms, paged_ms = disk.end_at_ms, disk.paged_at_ms
    told = "nobody was paged"
    if end_ms is not None and paged_ms is not None:
        told = f"{duration_text((end_ms - paged_ms) / 1_000)} after somebody was paged"
    return f"The disk of broker {disk.broker} at {disk.log_dir} was full, {told}."


def _harm(blast: BlastRadius) -> str:
    offline, under = blast.offline_partitions, blast.under_min_isr_partitions
    parts = [
        f"{counted(offline, 'partition was', 'partitions were')} offline for "
        f"{duration_text(blast.offline_partition_s)} together"
        if offline
        else "No partition was offline"
    ]
    if blast.under_min_isr_partition_s is None:
        parts.append("under min ISR: unknown")
    elif under:
        parts.append(f"{under} under min ISR for {duration_text(blast.under_min_isr_partition_s)}")
    else:
        parts.append("none under min ISR")
    lost = blast.records_lost
    if lost.records is None:
        parts.append("records lost: unknown")
    elif lost.records:
        least = "at least " if lost.is_lower_bound else ""
        parts.append(f"{least}{counted(lost.records, 'record was', 'records were')} lost")
    elif not lost.unknown_elections:
        parts.append("no record was lost as far as is known")
    else:
        parts.append(f"records lost: unknown for {counted(lost.unknown_elections, 'election')}")
    groups = blast.groups_hurt
    parts.append(
        "groups hurt: unknown"
        if groups is None
        else f"{counted(groups, 'group was', 'groups were')} hurt"
    )
    return "; ".join(parts) + "."
