"""An empty broker: the answer to ``bootstrap``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, Final, Literal, TypedDict

from streaming.questions.answer import Answer, ConflictError, brokers_of, check_broker
from streaming.questions.quantities import size_text, span_text
from twin import whatif as questions
from twin.plain import counted
from twin.state import ShardState
from twin.whatif import BootstrapCost

_COPIES: Final = {"assigned": "the replicas it has", "fair_share": "a fair share of all replicas"}


class Way(TypedDict):
    """The amount that is copied with KIP-1023's feature on or off."""

    feature: Literal["on", "off"]
    records: int
    bytes: int
    seconds: float


class Bootstrapped(TypedDict):
    """The amounts that an empty broker copies. Partitions of unknown size are in no sum."""

    broker: int
    copies: Literal["assigned", "fair_share"]
    rate_bytes_per_s: int
    partitions: int
    without_source: int
    cannot_start: int
    unknown: int
    paths: dict[str, int]
    ways: list[Way]


def bootstrapped(
    states: Sequence[ShardState], broker: int, rate_bytes_per_s: int, is_new: bool = False
) -> Answer:
    """The answer to ``bootstrap``.

    Raises:
        NotThereError: the broker does not exist.
        ConflictError: it is to be new, and does.
    """
    others = [other for other in brokers_of(states) if other != broker]
    if not is_new:
        check_broker(broker, brokers_of(states), "; new is for a broker that does not exist yet")
    elif broker in brokers_of(states):
        raise ConflictError(f"broker {broker} is there already, so it is not new")
    rows = [questions.replicas_on(state, broker) for state in states]
    has_replicas = any(map(len, rows))
    if not has_replicas:
        rows = [questions.fair_share(state, len(others)) for state in states]
    cost = reduce(
        add, (questions.bootstrap_cost(f, broker, r) for f, r in zip(states, rows, strict=True))
    )
    data: Bootstrapped = {
        "broker": broker,
        "copies": "assigned" if has_replicas else "fair_share",
        "rate_bytes_per_s": rate_bytes_per_s,
        "partitions": cost.partitions,
        "without_source": cost.without_source,
        "cannot_start": cost.cannot_start,
        "unknown": cost.unknown,
        "paths": dict(cost.paths),
        "ways": _ways(cost, rate_bytes_per_s),
    }
    return bootstrapped_text(data)


def _ways(cost: BootstrapCost, rate_bytes_per_s: int) -> list[Way]:
    def way(feature: Literal["on", "off"], records: int, size: float) -> Way:
        seconds = size / rate_bytes_per_s
        return {"feature": feature, "records": records, "bytes": round(size), "seconds": seconds}

    return [
        way("on", cost.records_on, cost.bytes_on),
        way("off", cost.records_off, cost.bytes_off),
    ]


def bootstrapped_text(data: Mapping[str, Any]) -> Answer:
    """The answer of those data for a person."""
    lines = [
        f"Broker {data['broker']}, empty, copies {_COPIES[data['copies']]}: "
        f"{counted(data['partitions'], 'partition')}. "
        f"{counted(data['without_source'], 'has', 'have')} no replica to copy from; the cost of "
        f"{data['unknown']} is unknown.",
        f"With KIP-1023, {data['cannot_start']} could not start now. Paths: "
        + ", ".join(f"{count} {path}" for path, count in data["paths"].items())
        + ". Bytes are estimated by the leaders' local records.",
    ]
    return Answer(
        data,
        lines,
        ("KIP-1023", "records", "bytes", f"time at {size_text(data['rate_bytes_per_s'])}/s"),
        [(way["feature"], way["records"], size_text(way["bytes"]),
          span_text(int(way["seconds"] * 1000)))
         for way in data["ways"]],
    )  # fmt: skip
