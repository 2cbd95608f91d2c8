"""The sections of a report about disks that filled, and about remote storage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from streaming.history.moment import time_text
from streaming.history.report.model import DiskForetold, FillingDisk, Report, StorageOutage
from streaming.history.report.writing.parts import (
    MOST_ROWS,
    UNKNOWN,
    Item,
    Section,
    TextTable,
    plain,
)
from streaming.questions.answer import listed
from streaming.runtime.quantities import duration_text, size_text
from twin.arrays.plain import counted

_ENDS: Final = {
    "open": "not full when the span ended",
    "freed": "foretold no longer",
    "full": "full",
    "failed": "full, and failed",
    "broker_lost": "full when its broker was lost",
}

_WHEN: Final = {"began": "at first", "warned": "when somebody was warned",
                "paged": "when somebody was paged", "half_way": "half-way to its end"}  # fmt: skip


def disk_sections(report: Report) -> list[Section]:
    """None where no disk was foretold to be full, and uploads came."""
    sections = []
    if report.remote_storage:
        items = [_outage(each) for each in report.remote_storage[:MOST_ROWS]]
        sections.append(Section("Remote storage that took no uploads", items=items))
    if report.disks:
        rows = [row for each in report.disks[:MOST_ROWS] for row in _rows(each)]
        header = ("disk", "warned", "paged", "then", "foretold", "", "off by")
        sentences = [_sentence(each) for each in report.disks[:MOST_ROWS]]
        table = TextTable(header, [row for row, _ in rows], [at_ms for _, at_ms in rows])
        sections.append(Section("Disks that filled", sentences, table=table))
    return sections


def _outage(each: StorageOutage) -> Item:
    since = UNKNOWN if each.since_ms is None else time_text(each.since_ms)
    until = "it went on" if each.until_ms is None else f"until {time_text(each.until_ms)}"
    told = "nobody was paged" if each.paged_at_ms is None else f"paged {_clock(each.paged_at_ms)}"
    text = (
        f"the last upload before it: {since}; {until}; {told}; brokers {listed(each.brokers)}; up "
        f"to {counted(each.most_partitions, 'partition')} and "
        f"{size_text(each.most_waiting_bytes)} waited"
    )
    return Item(text, each.found_at_ms)


def _sentence(each: FillingDisk) -> str:
    least = f"{size_text(each.least_usable_bytes)} of {size_text(each.total_bytes)}"
    return plain(f"{_name(each)}: {_ENDS[each.end]}; at the least, {least} was free.")


def _name(each: FillingDisk) -> str:
    return f"broker {each.broker}, {each.log_dir}"


def _rows(each: FillingDisk) -> Iterator[tuple[tuple[str, ...], int]]:
    """A row for each moment at which something was foretold; the disk is named in the first."""
    ends = _ENDS[each.end] + ("" if each.end_at_ms is None else f" {_clock(each.end_at_ms)}")
    about: Sequence[str] = (
        plain(_name(each)), _clock(each.warned_at_ms), _clock(each.paged_at_ms), ends,
    )  # fmt: skip
    for said in each.foretold:
        yield (*about, _span(said), _WHEN[said.when], _off(said)), said.at_ms
        about = ("", "", "", "")


def _span(said: DiskForetold) -> str:
    if said.earliest_ms is None:
        return "not in sight"
    if said.latest_ms is None:
        return f"{_clock(said.earliest_ms)} at the earliest"
    return f"{_clock(said.earliest_ms)} to {_clock(said.latest_ms)}"


def _off(said: DiskForetold) -> str:
    if said.off_s is None:
        return "-"
    if said.off_s == 0:
        return "nothing"
    how = "too late" if said.off_s < 0 else "too early"
    return f"{duration_text(abs(said.off_s))}, {how}"


def _clock(at_ms: int | None) -> str:
    return "-" if at_ms is None else time_text(at_ms)[11:19]
