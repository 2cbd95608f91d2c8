"""The answer to ``tier-outage`` for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streaming.questions.answer import Answer, listed
from streaming.questions.tier_outage.times import after_text
from streaming.runtime.quantities import duration_text, size_text
from twin.arrays.plain import counted

_MOST_LINES = 5
_RATES = {"given": "as given", "measured": "as measured", "quota": "its quota"}


def outage_text(data: Mapping[str, Any]) -> Answer:
    """The two numbers that a planner wants, what is out of reach, and a row a broker."""
    rows = [
        (
            each["broker"],
            after_text(each["forecast"], each["full_after_s"]),
            _size(each["missing_bytes"]),
            _size(each["uploaded_bytes"]),
            f"{size_text(each['written_bytes_per_s'])}/s",
            _caught_up(each),
        )
        for each in data["brokers"]
    ]
    header = ("broker", "a disk is full in", "lacks", "uploaded, still kept", "to upload",
              "uploads caught up in")  # fmt: skip
    return Answer(data, list(_lines(data)), header, rows)


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    if not data["tiered_partitions"]:
        yield "No partition is known to be tiered: remote storage is not missed."
        return
    lasts = duration_text(data["for_ms"] / 1_000)
    yield _survived(data) + _lost(data)
    missing = sum(each["missing_bytes"] or 0 for each in data["brokers"])
    if missing:
        could = sum(
            each["uploaded_bytes"] or 0 for each in data["brokers"] if each["missing_bytes"]
        )
        yield (
            f"For {lasts} the disks of these brokers lack {size_text(missing)}; less local "
            f"retention would free up to {size_text(could)} on them at once."
        )
    if data["unknown_partitions"]:
        count = counted(data["unknown_partitions"], "partition")
        yield f"Of {count} nobody knows whether it is tiered, or what is uploaded."
    if data["on_no_disk"]["partitions"]:
        yield f"Meanwhile nobody can read {_offsets(data['on_no_disk'])}, which are on no disk."
        yield from map(_range, data["ranges_on_no_disk"][:_MOST_LINES])
    for each in data["groups"][:_MOST_LINES]:
        yield from _group(each)
    if data["groups_total"] > _MOST_LINES:
        yield f"  and {counted(data['groups_total'] - _MOST_LINES, 'group')} more"
    if data["after_leader_change"]["partitions"]:
        yield (
            f"If leaders change, {_offsets(data['after_leader_change'])} are out of reach as well."
        )
    if data["no_new_replica"]:
        yield (
            f"No replica can be added to {counted(data['no_new_replica'], 'partition')}, and "
            f"{counted(data['cannot_start'], 'follower')} that is empty or far behind cannot start."
        )
    if data["topics"]:
        named = ", ".join(
            f"{each['topic']} ({size_text(each['written_bytes_per_s'])}/s)"
            for each in data["topics"][:_MOST_LINES]
        )
        yield f"Disks are filled by {named}."
    yield from (f"  {command}" for command in data["help"])


def _survived(data: Mapping[str, Any]) -> str:
    first = data["brokers"][0] if data["brokers"] else None
    if data["survived"] == "full" and first is not None:
        within = after_text("full", first["full_after_s"])
        half_s = data["half_full_s"]
        is_later = half_s is not None and duration_text(half_s) not in within
        more = f"; half of the brokers have one in {duration_text(half_s)}" if is_later else ""
        return f"Broker {first['broker']} has a full disk in {within}{more}"
    if data["survived"] == "not_in_sight":
        return "No disk is full within 14 days"
    return "When disks are full is unknown"


def _lost(data: Mapping[str, Any]) -> str:
    return f", without {listed(data['lost'])}." if data["lost"] else "."


def _group(row: Mapping[str, Any]) -> Iterator[str]:
    for when, words in (
        ("now", "cannot read"),
        ("after_loss", "cannot read, since a broker is lost,"),
        ("after_leader_change", "cannot read, once leaders change,"),
    ):
        if row[when]["partitions"]:
            yield f"  {row['group']} {words} {_offsets(row[when])}"


def _range(each: Mapping[str, Any]) -> str:
    return (
        f"  {each['topic']}-{each['partition']}: {each['first_offset']} to "
        f"{each['end_offset'] - 1} ({size_text(each['bytes'])})"
    )


def _offsets(each: Mapping[str, Any]) -> str:
    return (
        f"{counted(each['records'], 'record')} ({size_text(each['bytes'])}) of "
        f"{counted(each['partitions'], 'partition')}"
    )


def _size(value: int | None) -> str:
    return "unknown" if value is None else size_text(value)


def _caught_up(row: Mapping[str, Any]) -> str:
    if row["catch_up"] == "after":
        more = f"{size_text(row['more_bytes_per_s'])}/s more, {_RATES[row['upload_rate']]}"
        return f"{duration_text(row['catch_up_after_s'])} ({more})"
    words: str = row["catch_up"]
    return words.replace("_", " ")
