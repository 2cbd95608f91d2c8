"""A broker that comes back, or never does: the answer to ``recovery``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import add
from typing import Annotated, Any, Final, TypedDict, cast

from msgspec import Meta

from streaming.bus.view import ClusterView
from streaming.questions.answer import Answer, brokers_of, check_broker
from streaming.questions.bootstrap import Bootstrapped, bootstrap
from streaming.questions.parameters import duration_ms, number, size_bytes
from streaming.questions.question import question
from streaming.questions.room.data import RoomOnBroker, disks_in, room_data
from streaming.questions.room.words import room_lines
from streaming.runtime.quantities import size_text, span_text
from twin.arrays.plain import counted
from twin.questions import gate
from twin.questions.incoming import grown_on, growths_together
from twin.questions.recovery import copied_per_s, room_after
from twin.questions.recovery import recovery as recovery_of

ASSUMED_BYTES_PER_S: Final = 50 << 20
"""The rate that is assumed where no return of a broker was measured."""

BALANCED_WITHIN_S: Final = 300
"""Kafka's default of leader.imbalance.check.interval.seconds."""


class Sent(TypedDict):
    """The bytes that one leader sends to the broker that is back."""

    broker: int
    bytes: int


class Recovered(TypedDict):
    """A broker that comes back after some time. What is unknown is in no sum.

    ``rate_is_measured``: the rate is that of the newest measured return of this broker within 7
    days, else of the slowest of the others. ``in_sync_s`` is the time from its return until it is
    in sync; null where more is written to those partitions than it copies, so that it never is.
    ``room``: whether its disks have room for what it copies, from its return on.
    ``permanent`` is as ``bootstrap`` answers: what an empty broker of that id copies.
    """

    broker: int
    away_ms: int
    rate_bytes_per_s: Annotated[int, Meta(description="bytes it copies a second")]
    rate_is_measured: Annotated[bool, Meta(description="it was measured when brokers came back")]
    partitions: Annotated[int, Meta(description="number of its replicas")]
    unknown: Annotated[
        int, Meta(description="those of unknown growth, size or retention, in no sum")
    ]
    offline: Annotated[int, Meta(description="those that nobody leads meanwhile")]
    restarted: Annotated[
        int, Meta(description="those that start anew: the leader's local log begins later by then")
    ]
    preferred: Annotated[int, Meta(description="those that it leads again once it is in sync")]
    from_leader_bytes: int
    remote_only_bytes: Annotated[
        int, Meta(description="what was written meanwhile and only remote storage has by then")
    ]
    written_bytes_per_s: Annotated[
        int, Meta(description="bytes written to those partitions a second")
    ]
    in_sync_s: float | None
    sent: list[Sent]
    room: RoomOnBroker
    permanent: Bootstrapped


def _text(data: Mapping[str, Any]) -> Answer:
    """The answer of those data for a person."""
    away, rate = span_text(data["away_ms"]), f"{size_text(data['rate_bytes_per_s'])}/s"
    if data["rate_is_measured"]:
        rate += " (measured when brokers came back)"
    of = counted(data["partitions"], "partition")
    lines = [
        f"Broker {data['broker']} comes back after {away} and copies "
        f"{size_text(data['from_leader_bytes'])} for {of}."
    ]
    if data["restarted"]:
        lines.append(
            f"{counted(data['restarted'], 'of them starts', 'of them start')} anew, since the "
            f"leader's local log begins later by then; {size_text(data['remote_only_bytes'])} of "
            "what was written meanwhile are in remote storage only."
        )
    if data["in_sync_s"] is None:
        lines.append(
            f"At {rate} it is never in sync: {size_text(data['written_bytes_per_s'])}/s are "
            "written to these partitions."
        )
    else:
        lines.append(f"At {rate} it is in sync {_seconds(data['in_sync_s'])} after its return.")
        if data["preferred"]:
            lines.append(
                f"{counted(data['preferred'], 'leader', 'leaders')} then "
                f"{'comes' if data['preferred'] == 1 else 'come'} back to it: within "
                f"{BALANCED_WITHIN_S} s by Kafka's default, if leaders are balanced by themselves."
            )
    lines += room_lines([data["room"]], lambda _: "on its disks")
    if data["offline"]:
        lines.append(
            f"{counted(data['offline'], 'partition has', 'partitions have')} no leader until then."
        )
    if data["unknown"]:
        lines.append(
            f"Growth, record size or retention of {data['unknown']} is unknown; no sum has them."
        )
    lines += _if_lost(data["permanent"])
    lines.append("Records are taken to be written as fast as now, and bytes are estimated.")
    rows = [(each["broker"], size_text(each["bytes"])) for each in data["sent"]]
    return Answer(data, lines, ("leader", "sends to it"), rows)


def _if_lost(permanent: Mapping[str, Any]) -> Iterator[str]:
    for way in permanent["ways"]:
        yield (
            f"If it is lost for good, an empty one copies {size_text(way['bytes'])} in "
            f"{span_text(int(way['seconds'] * 1_000))} with KIP-1023 {way['feature']}."
        )
    yield from room_lines(permanent["room"], lambda _: "on its empty disks")


def _seconds(value_s: float) -> str:
    return span_text(math.ceil(value_s) * 1_000) if value_s >= 1 else "less than 1 s"


@question(
    "what a broker copies when it comes back after some time, and when it is in sync",
    text=_text,
    refusals={404: "there is no such broker"},
)
def recovery(
    view: ClusterView,
    *,
    broker: Annotated[int, number("the broker that goes and comes back")],
    away: Annotated[int, duration_ms("how long it is away from now on")] = 300_000,
    rate: Annotated[
        int | None,
        size_bytes("bytes it copies a second; by default as measured, else 50MiB", positive=True),
    ] = None,
) -> Recovered:
    """Lose a broker for some time.

    Shows what it copies once it is back, from whom, which partitions start anew since their leaders
    no longer have the records, and when it is in sync; and what a loss for good would cost.
    """
    states = view.states
    check_broker(broker, brokers_of(states))
    total = reduce(add, (recovery_of(state, broker, away / 1_000) for state in states))
    copied, written = total.from_leader_bytes, total.written_bytes_per_s
    measured = copied_per_s(view.cluster, broker) if rate is None else None
    rate = rate or measured or ASSUMED_BYTES_PER_S
    growths = None
    if gate.is_out(states, broker):
        growths = growths_together([grown_on(state, [broker], chosen=False) for state in states])
    room = room_after(disks_in(view), broker, total, away / 1_000, growths)
    in_sync_s = 0.0 if copied == 0 else copied / (rate - written) if written < rate else None
    return {
        "broker": broker,
        "away_ms": away,
        "rate_bytes_per_s": rate,
        "rate_is_measured": measured is not None,
        "partitions": total.partitions,
        "unknown": total.unknown,
        "offline": total.offline,
        "restarted": total.restarted,
        "preferred": total.preferred,
        "from_leader_bytes": round(copied),
        "remote_only_bytes": round(total.remote_only_bytes),
        "written_bytes_per_s": round(written),
        "in_sync_s": None if in_sync_s is None else round(in_sync_s, 3),
        "sent": [{"broker": one, "bytes": round(size)} for one, size in total.sent if size],
        "room": room_data(room),
        "permanent": cast(Bootstrapped, bootstrap.data(view, {"broker": broker, "rate": rate})),
    }
