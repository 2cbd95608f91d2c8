"""The difference between two moments, in sentences and a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from streaming.history.moment import how_known
from streaming.questions.answer import Answer, broker_or_nobody, listed
from twin.arrays.plain import counted

MOST_LINES: Final = 20
"""Sentences about brokers, and about settings; the JSON has more."""


def text(data: Mapping[str, Any]) -> Answer:
    """The answer for a person, made of its plain data."""
    counts = data["counts"]
    lines = [
        f"From {data['before']['at']} to {data['after']['at']}: "
        f"{counted(counts['leaders'], 'leader')}, {counted(counts['isrs'], 'ISR')} and "
        f"{counted(counts['replicas'], 'assignment')} differ; "
        f"{counted(counts['risks_opened'], 'risk')} opened, {counts['risks_closed']} closed; "
        f"{counted(counts['partitions_came'], 'partition')} came, "
        f"{counts['partitions_went']} went; {counted(counts['brokers'], 'broker')} and settings of "
        f"{counted(counts['topics'], 'topic')} differ."
    ]
    lines += _incomplete(data)
    lines += _some([_broker_line(each) for each in data["brokers"]], counts["brokers"], "brokers")
    settings = [_topic_line(each) for each in data["topics"]]
    lines += _some(settings, counts["topics"], "topics")
    lines += _amounts(data)
    header = ("partition", "leader", "ISR", "replicas", "risks opened", "risks closed")
    return Answer(data, lines, header, [_row(p) for p in data["partitions"]], data["total"])


def _amounts(data: Mapping[str, Any]) -> list[str]:
    """Sizes and groups: sentences that say what changed most."""
    counts = data["counts"]
    lines = _some([_topic_size(e) for e in data["topic_sizes"]], counts["topic_sizes"], "topics")
    brokers = [
        f"local logs of broker {each['broker']}: {_bytes(each['local_log_bytes'])}"
        for each in data["broker_sizes"]
    ]
    lines += _some(brokers, counts["broker_sizes"], "brokers")
    lines += _some([_group(each) for each in data["groups"]], counts["groups"], "groups")
    if data["sizes_not_compared"]:
        what = counted(data["sizes_not_compared"], "topic or broker", "topics or brokers")
        lines.append(f"Sizes of {what} are unknown at one of the moments, and not compared.")
    return lines


def _topic_size(each: Mapping[str, Any]) -> str:
    parts = []
    if each["local_log_bytes"] is not None:
        parts.append(f"local logs {_bytes(each['local_log_bytes'])}")
    if each["records_appended"] is not None:
        parts.append(f"log ends {each['records_appended']:+d} records")
    return f"topic {each['topic']}: {', '.join(parts)}"


def _bytes(of: Mapping[str, int]) -> str:
    return f"{of['before']} → {of['after']} bytes"


def _group(each: Mapping[str, Any]) -> str:
    if each["change"] != "changed":
        return f"group {each['group']} {each['change']}"
    names = (("group_state", "state"), ("members", "members"), ("lag_records", "lag"))
    parts = [f"{text} {_pair(each[name], str)}" for name, text in names if each[name]]
    return f"group {each['group']}: {', '.join(parts)}"


def _incomplete(data: Mapping[str, Any]) -> list[str]:
    lines = []
    for moment in (data["before"], data["after"]):
        if known := how_known(moment["complete"], moment["filled"]):
            lines.append(f"{moment['at']}{known}.")
    if data["not_compared"]:
        what = counted(data["not_compared"], "partition was", "partitions were")
        lines.append(f"{what} not yet described in one of the moments, and not compared.")
    if data["shards_not_compared"]:
        what = counted(data["shards_not_compared"], "shard")
        lines.append(f"Of {what} one of the moments knows nothing: not compared.")
    return lines


def _some(lines: list[str], total: int, what: str) -> list[str]:
    more = total - min(len(lines), MOST_LINES)
    return lines[:MOST_LINES] + ([f"{more} more {what}"] if more > 0 else [])


def _broker_line(each: Mapping[str, Any]) -> str:
    was, now = each["before"], each["after"]
    if was is None or now is None:
        return f"broker {each['broker']} {'came' if was is None else 'went'}"
    return f"broker {each['broker']}: {_standing(was)} → {_standing(now)}"


def _standing(of: Mapping[str, Any]) -> str:
    listed = "listed" if of["listed"] else "not listed"
    fenced = {True: ", fenced", False: "", None: ""}[of["fenced"]]
    return f"{listed}{fenced}, {'answers' if of['answered'] else 'does not answer'}"


def _topic_line(each: Mapping[str, Any]) -> str:
    values = ", ".join(
        f"{name} {_value(pair['before'])} → {_value(pair['after'])}"
        for name, pair in each["settings"].items()
    )
    return f"settings of {each['topic'] or 'the cluster'}: {values}"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "unknown or not set" if value is None else str(value)


def _row(each: Mapping[str, Any]) -> tuple[str, ...]:
    name = f"{each['topic']}-{each['partition']}"
    if each["change"] != "changed":
        return f"{name} {each['change']}", "", "", "", "", ""
    lists = (_pair(each[name], listed) for name in ("isr", "replicas"))
    risks = (", ".join(each[name]) for name in ("risks_opened", "risks_closed"))
    return name, _pair(each["leader"], broker_or_nobody), *lists, *risks


def _pair(values: Mapping[str, Any] | None, text_of: Callable[[Any], str]) -> str:
    return "" if values is None else f"{text_of(values['before'])} → {text_of(values['after'])}"
