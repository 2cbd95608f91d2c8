"""What is being copied now, and whether disks have room for it: the answer to ``room``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

import numpy as np
from msgspec import Meta

from streaming.bus.view import ClusterView
from streaming.questions.answer import Answer
from streaming.questions.question import question
from streaming.questions.room.data import RoomOnBroker, disks_in, room_data
from streaming.questions.room.words import room_lines
from streaming.runtime.quantities import size_text
from twin.arrays.plain import counted
from twin.plans.reordering import is_reassigning
from twin.questions.incoming import together, under_way
from twin.questions.room.verdict import room_for


class RoomUnderWay(TypedDict):
    """What brokers still have to copy, and whether they have room for it."""

    reassigning: Annotated[int, Meta(description="partitions that are being reassigned")]
    replicas: Annotated[int, Meta(description="those that are being added, or are not in sync")]
    copied_bytes: Annotated[int, Meta(description="what they lack; unknown ones are in no sum")]
    unknown_replicas: Annotated[int, Meta(description="those of which nobody knows what they lack")]
    brokers: list[RoomOnBroker]


def _text(data: Mapping[str, Any]) -> Answer:
    """The answer with those data, for a person."""
    are = counted(data["replicas"], "replica is", "replicas are")
    lack = "lacks" if data["replicas"] == 1 else "lack"
    unknown = f", and {data['unknown_replicas']} lack nobody knows how much"
    of = counted(data["reassigning"], "partition is", "partitions are")
    lines = [
        f"{of} being reassigned; {are} added or not in sync, and {lack} "
        f"{size_text(data['copied_bytes'])}{unknown if data['unknown_replicas'] else ''}."
    ]
    if not data["replicas"]:
        lines = ["No replica is added, and all are in sync or offline: nothing is copied."]
    lines += room_lines(data["brokers"])
    rows = [
        (
            each["broker"], each["replicas"], size_text(each["needed_bytes"]),
            "-" if each["free_bytes"] is None else size_text(each["free_bytes"]),
            each["log_dir"] or "-", each["room"].replace("_", " "),
        )
        for each in data["brokers"]
    ]  # fmt: skip
    header = ("broker", "replicas", "copies", "free", "in", "room")
    return Answer(data, lines, header, rows)


@question("what is copied now, and whether the disks that it goes to have room for it", text=_text)
def room(view: ClusterView) -> RoomUnderWay:
    """Say what is being copied, and if it fits.

    Replicas that a reassignment adds, and those that are not in sync, copy what they lack. Shows
    for each broker whether its disks have room for that, and until when.
    """
    states = view.states
    waiting = together([under_way(state) for state in states])
    return {
        "reassigning": sum(int(is_reassigning(state).sum()) for state in states),
        "replicas": len(waiting.broker),
        "copied_bytes": round(float(np.nansum(waiting.bytes))),
        "unknown_replicas": int(np.isnan(waiting.bytes).sum()),
        "brokers": [room_data(each) for each in room_for(disks_in(view), waiting, states)],
    }
