"""Settings of the bus topics that a user gives: over those of the twin, or left to the broker.

Managed Kafka has policies: brokers refuse to create a topic with a setting that is not among theirs
or is out of their range (KIP-108). So each setting can be given by topic, and ``DEFAULT`` leaves it
out: TOML has no null. What leaving out one costs is in docs/managed.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

DEFAULT: Final = "default"
"""In place of a value: the setting is not sent, so that of the broker holds."""

TOPICS: Final = ("observations", "snapshots", "events")

_NAME: Final = re.compile(r"[a-z][a-z0-9.-]*")
_ALL: Final = ("cleanup.policy", "max.message.bytes")
OURS: Final[Mapping[str, tuple[str, ...]]] = {
    "observations": (*_ALL, "retention.ms", "segment.ms"),
    "snapshots": (
        *_ALL, "segment.ms", "segment.bytes", "min.cleanable.dirty.ratio", "max.compaction.lag.ms",
        "delete.retention.ms",
    ),
    "events": (*_ALL, "retention.ms"),
}  # fmt: skip
"""The settings that the twin gives each topic, which are those that can be left out."""

Given = dict[str, str | int | float | bool]


class BusTopicSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of each bus topic, by Kafka's names."""

    observations: Given = msgspec.field(default_factory=dict)
    snapshots: Given = msgspec.field(default_factory=dict)
    events: Given = msgspec.field(default_factory=dict)


def laid_over(ours: Mapping[str, str], given: Given) -> dict[str, str]:
    """The settings to create a topic with: the given ones win, and some are left out."""
    both = {**ours, **{name: _text(value) for name, value in given.items()}}
    return {name: value for name, value in both.items() if value != DEFAULT}


def flattened(table: Mapping[str, Any]) -> dict[str, Any]:
    """By Kafka's names. In TOML ``segment.ms = 1`` without quotes is a table in a table."""

    def leaves(values: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
        for name, value in values.items():
            if isinstance(value, dict):
                yield from leaves(value, f"{before}{name}.")
            else:
                yield f"{before}{name}", value

    return dict(leaves(table, ""))


def from_variable(name: str) -> tuple[str, str] | None:
    """Topic and setting that ``SNAPSHOTS_SEGMENT_MS`` names; None if there is no such topic."""
    topic, _, setting = name.lower().partition("_")
    return (topic, setting.replace("_", ".")) if topic in TOPICS and setting else None


def problems(settings: BusTopicSettings, message_bytes: int) -> Iterator[tuple[str, str]]:
    """What would break the twin: key below ``bus.topics``, and the reason.

    Args:
        settings: as given.
        message_bytes: the largest message that the twin sends.
    """
    for topic in TOPICS:
        given: Given = getattr(settings, topic)
        for name, value in given.items():
            reason = _reason(topic, name, _text(value), message_bytes)
            if reason:
                yield f"{topic}.{name}", reason


def _reason(topic: str, name: str, value: str, message_bytes: int) -> str:
    if _NAME.fullmatch(name) is None:
        return "is not like the name of a topic setting of Kafka, such as segment.ms"
    if value == DEFAULT and name not in OURS[topic]:
        return f"is not set by the twin, which sets {', '.join(OURS[topic])}: leave the line out"
    if name == "cleanup.policy":
        policies = {part.strip() for part in value.split(",")}
        if topic == "snapshots" and policies != {"compact"}:
            return (
                "must be compact: with another policy the topic loses the state of shards, or "
                "grows without an end"
            )
        if topic != "snapshots" and policies not in ({"delete"}, {DEFAULT}):
            return "must be delete: compaction would drop records that are still read"
    if (topic, name) == ("observations", "retention.ms") and value != DEFAULT:
        return "set bus.observations_retention_ms instead, which other settings follow"
    is_number = value.isdecimal() and value.isascii()
    if (
        name != "max.message.bytes"
        or value == DEFAULT
        or (is_number and int(value) >= message_bytes)
    ):
        return ""
    return f"must be at least {message_bytes}: the twin sends messages of that size"


def _text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def advice(topic: str, refused: str) -> str:
    """What to put into the configuration after a broker has refused a topic.

    Args:
        topic: one of ``TOPICS``.
        refused: the broker's message, which names the setting where its policy says so.
    """
    named = [n for n in OURS[topic] if re.search(rf"(?<![\w.]){re.escape(n)}(?![\w.]\w)", refused)]
    costs = "docs/managed.md#topics-of-the-twin says what it costs"
    if named:
        lines = " ".join(f'{name} = "{DEFAULT}"' for name in named)
        return f"another value, or {lines} below [bus.topics.{topic}] leaves it out; {costs}"
    if re.search(r"replication.?factor", refused, re.IGNORECASE):
        return "set bus.replication_factor to what it wants"
    if re.search(r"\bpartitions?\b", refused, re.IGNORECASE):
        return "set bus.partitions to what it wants"
    return (
        f"if a setting is the cause, leave it out below [bus.topics.{topic}], such as "
        f'{OURS[topic][-1]} = "{DEFAULT}"; {costs}'
    )
