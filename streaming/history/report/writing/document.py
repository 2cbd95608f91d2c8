"""A report as a document: sections with sentences, lines and tables, for whatever it is shown as.

All texts here are plain: names and sentences of events come from the cluster, or from a stranger's
capsule, and whoever writes Markdown or HTML escapes every one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from streaming.history.moment import time_text
from streaming.history.report.model import Line, Report, Standing, Unalerted
from streaming.history.report.writing.disk_sections import disk_sections
from streaming.history.report.writing.parts import (
    MOST_ROWS,
    UNKNOWN,
    Document,
    Item,
    Section,
    TextTable,
    plain,
)
from streaming.questions.answer import broker_or_nobody, listed
from streaming.runtime.quantities import duration_text
from twin.arrays.plain import counted

MOST_INCIDENTS: Final = 100


def document(report: Report) -> Document:
    """The report in the order in which it is read."""
    shown = report.incidents[:MOST_INCIDENTS]
    return Document(
        f"What happened to {plain(report.cluster)}",
        f"{time_text(report.begin_ms)} to {time_text(report.end_ms)}, "
        f"{counted(report.cycles, 'cycle')}, one each {report.resolution_ms / 1_000:g} s",
        [
            Section("In short", items=[Item(plain(line)) for line in report.summary]),
            _blast(report),
            _standings(report),
            _timeline(report),
            Section(
                "No cause found",
                ["Nothing that the table of causes knows of came before these."]
                if report.no_cause
                else ["All that happened has a cause above."],
                [_item(line) for line in report.no_cause],
            ),
            _foretold(report),
            *disk_sections(report),
            _unalerted(report.unalerted),
            Section(
                "What people did",
                ["Or programs for them: events do not say who."]
                if report.people
                else ["Nothing that people did was recorded."],
                [_item(line) for line in report.people],
            ),
            _other_rules(report),
            Section("What is not known", items=[Item(plain(line)) for line in report.not_known]),
        ],
        [(number, each.cause.at_ms) for number, each in enumerate(shown, 1)],
    )


def _item(line: Line, *, depth: int = 0, note: str = "", number: int = 0) -> Item:
    text = line.text
    if line.until_ms > line.at_ms:
        text = f"{text} (until {time_text(line.until_ms)[11:19]})"
    more = line.count - len(line.names)
    names = line.names if line.count > 1 else ()
    if names and more > 0:
        names = (*names, "…")
    return Item(plain(text), line.at_ms, depth, note, tuple(map(plain, names)), number)


def _blast(report: Report) -> Section:
    blast, lost = report.blast_radius, report.blast_radius.records_lost
    least = "at least " if lost.is_lower_bound and lost.records else ""
    rows = [
        ("offline", f"{blast.offline_partition_s:g} partition-seconds",
         counted(blast.offline_partitions, "partition")),
        ("under min ISR", _or_unknown(blast.under_min_isr_partition_s, "partition-seconds"),
         counted(blast.under_min_isr_partitions, "partition")),
        ("records lost", UNKNOWN if lost.records is None else f"{least}{lost.records}",
         f"{counted(lost.elections, 'election')}; unknown for {lost.unknown_elections}"),
        ("groups hurt", _or_unknown(blast.groups_hurt),
         ", ".join(plain(each.group) for each in blast.groups[:5])),
        ("bytes read remotely", _or_unknown(blast.remote_reads.read_bytes),
         "a lower bound" if blast.remote_reads.is_lower_bound else ""),
        ("observed", f"{blast.observed_s:g} s", f"not observed: {blast.not_observed_s:g} s"),
    ]  # fmt: skip
    return Section("Blast radius", table=TextTable(("what", "how much", "of"), rows))


def _or_unknown(value: float | None, unit: str = "") -> str:
    return UNKNOWN if value is None else f"{value:,.10g} {unit}".rstrip()


def _standings(report: Report) -> Section:
    moments = (("before", report.before), ("worst moment", report.worst), ("after", report.after))
    rows: dict[str, Callable[[Standing], str]] = {
        "partitions": lambda s: str(s.partitions),
        "offline": lambda s: str(s.offline),
        "under min ISR": lambda s: str(s.under_min_isr),
        "at risk": lambda s: str(s.at_risk),
        "risks": _risks,
        "brokers down": lambda s: listed(s.brokers_down),
        "brokers silent": lambda s: listed(s.brokers_silent),
        "lag of groups": lambda s: _or_unknown(s.lag_records, "records"),
    }
    known = [(name, each) for name, each in moments if each is not None]
    return Section(
        "Before, at its worst, after",
        [] if report.worst else ["Nothing was wrong at any time: there is no worst moment."],
        table=TextTable(
            ("", *(name for name, _ in known)),
            [(name, *(text(each) for _, each in known)) for name, text in rows.items()],
            header_at_ms=(None, *(each.at_ms for _, each in known)),
        ),
    )


def _risks(of: Standing) -> str:
    return ", ".join(f"{name} {number}" for name, number in of.risks.items()) or "none"


def _timeline(report: Report) -> Section:
    items = []
    for number, incident in enumerate(report.incidents[:MOST_INCIDENTS], 1):
        items.append(_item(incident.cause, number=number))
        items += [_item(e.line, depth=e.depth, note=e.certainty) for e in incident.effects]
    sentences = [
        "Certain: in the same cycle, and the event names the same broker or partition. "
        "Inferred: the same broker or partition, near in time."
    ]
    if not report.incidents:
        sentences = ["No cause was recorded."]
    if len(report.incidents) > MOST_INCIDENTS:
        sentences.append(f"{len(report.incidents) - MOST_INCIDENTS} more causes are in the JSON.")
    return Section("Timeline, by cause", sentences, items)


def _foretold(report: Report) -> Section:
    of = report.foretold
    if not of.losses:
        return Section("What was foretold", ["No leader was lost."])
    sentences = [
        f"{counted(of.losses, 'leader was', 'leaders were')} lost. Who leads next was predicted "
        f"right for {of.right}, wrong for {of.wrong}; for {of.overtaken} something else changed "
        f"after the last cycle, and {of.unforeseen} could not be foreseen."
    ]
    if of.shortest_s is not None and of.median_s is not None:
        sentences.append(
            "Right predictions had stood for at least "
            f"{duration_text(of.shortest_s)} before the loss, "
            f"half of them for {duration_text(of.median_s)} or longer."
        )
    rows = [
        (f"{plain(e.topic)}-{e.partition}", str(e.lost), broker_or_nobody(e.predicted),
         broker_or_nobody(e.elected), e.result, _stood(e.stood_s, longer=e.stood_longer))
        for e in of.leaders[:MOST_ROWS]
    ]  # fmt: skip
    header = ("partition", "lost", "predicted", "elected", "result", "stood for")
    moments = [each.at_ms for each in of.leaders[:MOST_ROWS]]
    if of.losses > len(rows):
        sentences.append(f"The table has {len(rows)} of them, those that were not right first.")
    return Section("What was foretold", sentences, table=TextTable(header, rows, moments))


def _stood(value: float | None, *, longer: bool) -> str:
    if value is None:
        return UNKNOWN
    return f"{duration_text(value)} or longer" if longer else duration_text(value)


def _unalerted(found: Sequence[Unalerted]) -> Section:
    title = "What began and alerted nobody"
    if not found:
        return Section(title, ["Every risk that began had an alert, or none began."])
    rows = [
        (plain(each.risk), plain(each.severity),
         f"{duration_text(each.lasted_s)}{'' if each.is_over else ' or longer'}", str(each.most),
         plain(each.why))
        for each in found[:MOST_ROWS]
    ]  # fmt: skip
    header = ("risk", "severity", "lasted", "at most", "why")
    more = _more(len(found))
    return Section(title, more, table=TextTable(header, rows, [e.at_ms for e in found[:MOST_ROWS]]))


def _other_rules(report: Report) -> Section:
    if not any(each.judged or each.not_judged for each in report.other_rules):
        return Section("What other election rules would have changed", ["No leader was lost."])
    rows = [
        (each.title, f"{each.judged} of {each.judged + each.not_judged}", str(each.other_leader),
         str(each.warm_for_cold), str(each.leader_for_nobody), str(each.clean_for_unclean),
         "" if each.shrinks_avoided is None else str(each.shrinks_avoided))
        for each in report.other_rules
    ]  # fmt: skip
    header = ("rule", "losses judged", "another leader", "warm, not cold", "somebody, not nobody",
              "clean, not unclean", "ISR shrinks avoided")  # fmt: skip
    return Section(
        "What other election rules would have changed",
        [
            "One decision at a time, with what was known in the cycle before: what would have "
            "followed is not computed. Losses whose leader was not predicted right are not judged."
        ],
        table=TextTable(header, rows),
    )


def _more(number: int) -> Sequence[str]:
    return [f"The first {MOST_ROWS} of {number}."] if number > MOST_ROWS else []
