"""Makes the report of a span: reads its events, steps through its cycles once, and puts it
together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from streaming.history.moment import time_text
from streaming.history.past import Past
from streaming.history.report.alerts import unalerted
from streaming.history.report.causes import links
from streaming.history.report.happenings import Events, Happening, Place, read
from streaming.history.report.incidents import Told, told
from streaming.history.report.model import BlastRadius, Report
from streaming.history.report.scanning.elections import Elections
from streaming.history.report.scanning.losses import LostRecords, SufferingGroups
from streaming.history.report.scanning.scan import Scan, check_size, scanned
from streaming.history.report.summary import summary
from twin.arrays.plain import counted
from twin.engine.catalog import Catalog

_NAMED: Final = 5
_GATE: Final = "whether somebody asked the gate is recorded only where gate.record is set"


def report_of(past: Past, catalog: Catalog, cluster: str, from_ms: int, to_ms: int) -> Report:
    """What happened between two moments of the past.

    Args:
        past: where the states and events are.
        catalog: the rules that made them.
        cluster: its name.
        from_ms: the earlier moment of its span.
        to_ms: the later one.

    Raises:
        MomentError: there are more cycles between them than a report has.
    """
    times, first = check_size(past, from_ms, to_ms)
    begin_ms, end_ms = times[0], times[-1]
    events = read(past.events(begin_ms, end_ms), begin_ms, end_ms)
    asked: dict[int, set[Place]] = defaultdict(set)
    for each in events.happenings:
        if each.kind.startswith("risk_opened/"):
            asked[each.at_ms].add(each.place)
    scan, elections, lost, groups = scanned(past, times, first, asked)
    happenings = _completed(events, scan, elections)
    timeline = told(happenings, links(happenings, scan.resolution_ms), scan.racks)
    assert scan.before is not None
    assert scan.after is not None
    blast = _blast(scan, lost, groups)
    foretold, disks = elections.foretold(), scan.disks.filling()
    return Report(
        cluster=cluster,
        begin_ms=begin_ms,
        end_ms=end_ms,
        cycles=len(times),
        resolution_ms=scan.resolution_ms,
        summary=summary(blast, timeline, foretold, disks, scan.worst),
        blast_radius=blast,
        before=scan.before,
        worst=scan.worst,
        after=scan.after,
        incidents=timeline.incidents,
        no_cause=timeline.no_cause,
        foretold=foretold,
        remote_storage=scan.disks.outages(),
        disks=disks,
        unalerted=unalerted(catalog, scan.at_ms, scan.alerting, events.happenings),
        people=timeline.people,
        other_rules=elections.others(catalog.election_rules, events.happenings),
        not_known=_not_known(events, scan, groups, timeline),
        series=scan.shown(),
    )


def _completed(events: Events, scan: Scan, elections: Elections) -> Sequence[Happening]:
    """Events and what the states show, with what the states know of each."""

    def completed(each: Happening) -> Happening:
        key = (*each.place, each.at_ms)
        if each.kind == "leader_moved" and key in elections.causes:
            return replace(each, name=elections.causes[key])
        if each.kind.startswith("risk_opened/") and key in scan.leaders:
            return replace(each, leader=scan.leaders[key])
        return each

    every = (*scan.happenings, *map(completed, events.happenings))
    return sorted(every, key=lambda each: each.at_ms)


def _blast(scan: Scan, lost: LostRecords, groups: SufferingGroups) -> BlastRadius:
    under: float | None = scan.partition_seconds("under_min_isr")
    if scan.unknown_min_isr and scan.unknown_min_isr >= scan.most_partitions:
        under = None  # nobody could read min.insync.replicas
    return BlastRadius(
        offline_partition_s=scan.partition_seconds("offline"),
        under_min_isr_partition_s=under,
        under_min_isr_unknown_partitions=scan.unknown_min_isr,
        observed_s=sum(scan.stands_s),
        not_observed_s=sum(each.end_ms - each.begin_ms for each in scan.gaps) / 1_000,
        offline_partitions=len(scan.ever_offline),
        under_min_isr_partitions=len(scan.ever_under),
        records_lost=lost.found(),
        groups_hurt=groups.number,
        groups=groups.groups,
        remote_reads=scan.remote_reads(),
    )


def _not_known(events: Events, scan: Scan, groups: SufferingGroups, timeline: Told) -> list[str]:
    """Sentences about data that the report may lack."""
    lines: list[str] = []
    for gap in scan.gaps[:_NAMED]:
        lines.append(
            f"nothing was recorded from {time_text(gap.begin_ms)} to {time_text(gap.end_ms)}"
        )
    if len(scan.gaps) > _NAMED:
        lines.append(f"{counted(len(scan.gaps) - _NAMED, 'more gap')} of the same kind")
    if scan.incomplete:
        what = counted(len(scan.incomplete), "cycle lacks", "cycles lack")
        lines.append(f"{what} a part, the first at {time_text(scan.incomplete[0])}")
    if scan.filled:
        what = counted(len(scan.filled), "cycle was", "cycles were")
        lines.append(
            f"{what} not archived and computed from observations, the first at "
            f"{time_text(scan.filled[0])}: findings on remote segments are those of before"
        )
    if scan.shards_missing:
        lines.append(f"of {counted(scan.shards_missing, 'shard')} nothing is known for a time")
    if scan.not_described:
        lines.append(
            f"{counted(scan.not_described, 'partition was', 'partitions were')} not described for "
            "a time, and counted nowhere"
        )
    if scan.unknown_min_isr:
        lines.append(
            f"min.insync.replicas of {counted(scan.unknown_min_isr, 'partition')} is not known"
        )
    if not groups.is_observed:
        lines.append("no group of consumers was observed: whom it hurt is not known")
    if not scan.remote_measured:
        lines.append("no broker measured what it read from remote storage: JMX was not scraped")
    elif scan.remote_measured < scan.remote_expected:
        lines.append("some brokers were not measured all the time: remote reads are a lower bound")
    lines += _of_events(events, timeline, scan)
    if not any(each.kind == "restart_judged" for each in events.happenings):
        lines.append(_GATE)
    return lines


def _of_events(events: Events, timeline: Told, scan: Scan) -> Iterable[str]:
    if not events.total and scan.worst is not None:
        yield "no event of the span was recorded: nothing is said about causes"
    if events.is_cut:
        yield f"the events were cut after {events.total}: the timeline ends before the span does"
    if events.unreadable:
        yield f"{counted(events.unreadable, 'event')} could not be read"
    if events.of_query:
        yield (
            f"the query refused observations, or discarded states: "
            f"{counted(events.of_query, 'event says', 'events say')} so"
        )
    if timeline.no_cause:
        number = sum(each.count for each in timeline.no_cause)
        yield f"of {counted(number, 'happening')} no cause was found"
