"""An empty broker: the answer to ``bootstrap``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import add
from typing import Annotated, Any, Final, Literal, TypedDict

from msgspec import Meta

from streaming.bus.view import ClusterView
from streaming.questions.answer import Answer, ConflictError, brokers_of, check_broker
from streaming.questions.parameters import number, size_bytes, yes_or_no
from streaming.questions.question import question
from streaming.questions.room.data import RoomOnBroker, room_if_empty
from streaming.questions.room.words import room_lines
from streaming.runtime.quantities import size_text, span_text
from twin.arrays.plain import counted
from twin.questions import whatif
from twin.questions.whatif import BootstrapCost

_COPIES: Final = {"assigned": "the replicas it has", "fair_share": "a fair share of all replicas"}


class FollowerCopy(TypedDict):
    """The amount that is copied with KIP-1023's feature on or off."""

    feature: Literal["on", "off"]
    records: int
    bytes: int
    seconds: float


class Bootstrapped(TypedDict):
    """The amounts that an empty broker copies. Partitions of unknown size are in no sum.

    ``room``: whether its disks, empty, have room for it; without a broker if it copies nothing.
    """

    broker: int
    copies: Annotated[
        Literal["assigned", "fair_share"],
        Meta(description="the replicas assigned to it, or a fair share of all replicas"),
    ]
    rate_bytes_per_s: Annotated[int, Meta(description="bytes it copies a second")]
    partitions: Annotated[int, Meta(description="number of partitions it copies")]
    without_source: Annotated[int, Meta(description="those with no replica to copy from")]
    cannot_start: Annotated[int, Meta(description="those that could not start now with KIP-1023")]
    unknown: Annotated[int, Meta(description="those of unknown size, which are in no sum")]
    paths: Annotated[dict[str, int], Meta(description="partitions by where a replica starts")]
    ways: Annotated[
        list[FollowerCopy], Meta(description="what is copied with the feature on, and off")
    ]
    room: list[RoomOnBroker]


def _ways(cost: BootstrapCost, rate_bytes_per_s: int) -> list[FollowerCopy]:
    def amount(feature: Literal["on", "off"], records: int, size: float) -> FollowerCopy:
        seconds = size / rate_bytes_per_s
        return {"feature": feature, "records": records, "bytes": round(size), "seconds": seconds}

    return [
        amount("on", cost.records_on, cost.bytes_on),
        amount("off", cost.records_off, cost.bytes_off),
    ]


def _text(data: Mapping[str, Any]) -> Answer:
    """The answer with those data, for a person."""
    lines = [
        f"Broker {data['broker']}, empty, copies {_COPIES[data['copies']]}: "
        f"{counted(data['partitions'], 'partition')}. "
        f"{counted(data['without_source'], 'has', 'have')} no replica to copy from; the cost of "
        f"{data['unknown']} is unknown.",
        f"With KIP-1023, {data['cannot_start']} could not start now. Paths: "
        + ", ".join(f"{count} {path}" for path, count in data["paths"].items())
        + ". Bytes are estimated by the leaders' local records.",
    ]
    lines += room_lines(data["room"], lambda _: "on its empty disks")
    return Answer(
        data,
        lines,
        ("KIP-1023", "records", "bytes", f"time at {size_text(data['rate_bytes_per_s'])}/s"),
        [(way["feature"], way["records"], size_text(way["bytes"]),
          span_text(int(way["seconds"] * 1000)))
         for way in data["ways"]],
    )  # fmt: skip


@question(
    "if an empty broker joins: what it copies with KIP-1023 and without",
    text=_text,
    refusals={404: "there is no such broker", 409: "a new broker is there already"},
)
def bootstrap(
    view: ClusterView,
    *,
    broker: Annotated[int, number("the broker whose disk is empty")],
    new: Annotated[bool, yes_or_no("the broker does not exist yet")] = False,
    rate: Annotated[int, size_bytes("bytes it copies a second", positive=True)] = 50 << 20,
) -> Bootstrapped:
    """Let an empty broker join.

    Shows what it copies with KIP-1023 and without: the replicas assigned to it, or a fair share of
    all replicas if it has none.
    """
    states = view.states
    existing = brokers_of(states)
    if not new:
        check_broker(broker, existing, "; new is for a broker that does not exist yet")
    elif broker in existing:
        raise ConflictError(f"broker {broker} is there already, so it is not new")
    rows = [whatif.replicas_on(state, broker) for state in states]
    has_replicas = any(map(len, rows))
    if not has_replicas:
        others = [other for other in existing if other != broker]
        rows = [whatif.fair_share(state, len(others)) for state in states]
    cost = reduce(
        add, (whatif.bootstrap_cost(f, broker, r) for f, r in zip(states, rows, strict=True))
    )
    return {
        "broker": broker,
        "copies": "assigned" if has_replicas else "fair_share",
        "rate_bytes_per_s": rate,
        "partitions": cost.partitions,
        "without_source": cost.without_source,
        "cannot_start": cost.cannot_start,
        "unknown": cost.unknown,
        "paths": dict(cost.paths),
        "ways": _ways(cost, rate),
        "room": room_if_empty(view, broker, None if has_replicas else rows),
    }
