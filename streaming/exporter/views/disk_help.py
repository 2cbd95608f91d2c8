"""What would help a volume that will be full, as commands to paste.

Two things make room in time: a shorter retention of the topic that adds most, and other brokers for
it. `kafka-twin plan place` is none of them: it places against the loss of racks, and leaves each
broker as many replicas as it has.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypedDict

import numpy as np

from streaming.exporter.views.filling import RetentionSettings
from streaming.runtime.quantities import span_text
from twin.cluster_rules.disks.dir_contents import LogDirUse
from twin.cluster_rules.disks.disk_full import DiskForecasts
from twin.rules.brokers.log_dirs import STORAGE_ERROR

_MINUTE_MS: Final = 60_000

BOOTSTRAP: Final = "BOOTSTRAP"


class Help(TypedDict):
    """Something that would help, and its command."""

    text: str
    command: str


def with_room(forecasts: DiskForecasts, use: LogDirUse) -> Sequence[int]:
    """Brokers to which data can be moved: of none of their volumes an end is in sight."""
    is_well = forecasts.is_current & np.isposinf(forecasts.full_at_earliest_ms)
    well, ill = forecasts.broker[is_well], forecasts.broker[~is_well]
    broken = use.broker[use.error_code == STORAGE_ERROR]
    return sorted({*well.tolist()} - {*ill.tolist()} - {*broken.tolist()})


def help_for(
    topics: Sequence[Mapping[str, Any]],
    settings: Mapping[str, RetentionSettings],
    room: Sequence[int],
    address: str,
) -> list[Help]:
    """What would help a directory.

    Args:
        topics: those that fill it, the one that adds most first.
        settings: of these topics.
        room: brokers to which data can be moved.
        address: of a broker that answers; empty if none is known.
    """
    bootstrap = address or BOOTSTRAP
    found: list[Help] = []
    for name in (each["topic"] for each in topics):
        shorter = _shorter(name, settings[name], bootstrap) if name in settings else None
        if shorter is not None:
            found.append(shorter)
            break
    if topics and (first := topics[0]["topic"]) in settings:
        found += _moved(first, settings[first], room, bootstrap)
    return found


def _shorter(topic: str, settings: RetentionSettings, bootstrap: str) -> Help | None:
    """Half of what is kept now; None where a retention deletes nothing, or nobody knows the age."""
    name, now_ms = settings.by_time, settings.settings[settings.by_time]
    ages_ms = [each for each in (now_ms, settings.oldest_ms) if each is not None and each > 0]
    if settings.is_compacted or not ages_ms:
        return None
    new_ms = min(ages_ms) // 2
    new_ms -= new_ms % (_MINUTE_MS if new_ms >= 2 * _MINUTE_MS else 1)
    if new_ms <= 0:
        return None
    what = (
        "deletes on disk what is older and uploaded; consumers read it from remote storage"
        if settings.tiered
        else "deletes what is older for good, on all brokers"
    )
    return {
        "text": f"keep {topic} for {span_text(new_ms)} in place of {_text(now_ms)}: {what}, closed "
        "segments alone",
        "command": _line(
            "kafka-configs.sh", "--bootstrap-server", bootstrap, "--alter", "--entity-type",
            "topics", "--entity-name", topic, "--add-config", f"{name}={new_ms}",
        ),
    }  # fmt: skip


def _moved(
    topic: str, settings: RetentionSettings, room: Sequence[int], bootstrap: str
) -> Iterator[Help]:
    """The topic on brokers with room, if there are enough of these for its replicas."""
    if not 0 < settings.replicas <= len(room):
        return
    listed = json.dumps({"version": 1, "topics": [{"topic": topic}]}, separators=(",", ":"))
    tool = ("kafka-reassign-partitions.sh", "--bootstrap-server", bootstrap)
    proposal = _line(
        *tool, "--topics-to-move-json-file", "topics.json", "--broker-list",
        ",".join(map(str, room)), "--generate",
    )  # fmt: skip
    yield {
        "text": f"or have {topic} on the brokers with room: save what this proposes as "
        "proposal.json",
        "command": f"echo {shlex.quote(listed)} > topics.json && {proposal}",
    }
    yield {
        "text": "see that no loss of a broker or rack would be worse then",
        "command": "kafka-twin plan judge proposal.json",
    }
    yield {
        "text": "move it: the room is free once the copies are whole",
        "command": _line(
            *tool, "--reassignment-json-file", "proposal.json", "--execute", "--throttle",
            "BYTES_PER_S",
        ),
    }  # fmt: skip


def _text(kept_ms: int | None) -> str:
    if kept_ms is None:
        return "what it is now"
    return "ever" if kept_ms < 0 else span_text(kept_ms)


def _line(*words: str) -> str:
    return " ".join(map(shlex.quote, words))
