"""An empty broker: the answer to ``bootstrap``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import reduce
from operator import add
from typing import Any

from streaming.questions.answer import Answer, WhatIfError, brokers_of, check_broker
from streaming.questions.quantities import size_text, span_text
from twin import whatif as questions
from twin.state import ShardState


def bootstrapped(
    states: Sequence[ShardState], broker: int, rate: int, is_new: bool = False
) -> Answer:
    """The answer to ``bootstrap``.

    Raises:
        WhatIfError: the broker does not exist, or is to be new and does.
    """
    others = [other for other in brokers_of(states) if other != broker]
    if not is_new:
        check_broker(broker, brokers_of(states), "; --new asks of one that is not there yet")
    elif broker in brokers_of(states):
        raise WhatIfError(f"broker {broker} is there already: leave --new away")
    rows = [questions.replicas_on(state, broker) for state in states]
    what = "the replicas it has"
    if not any(map(len, rows)):
        rows = [questions.fair_share(state, len(others)) for state in states]
        what = "a fair share of all replicas"
    cost = reduce(
        add, (questions.bootstrap_cost(f, broker, r) for f, r in zip(states, rows, strict=True))
    )
    ways: list[dict[str, Any]] = [
        {"feature": feature, "records": records, "bytes": round(size), "seconds": size / rate}
        for feature, records, size in (
            ("on", cost.records_on, cost.bytes_on),
            ("off", cost.records_off, cost.bytes_off),
        )
    ]
    lines = [
        f"Broker {broker}, empty, copies {what}: {cost.partitions} partitions. "
        f"{cost.without_source} have no replica to copy from; "
        f"the cost of {cost.unknown} is unknown.",
        f"With KIP-1023, {cost.cannot_start} could not start now. Paths: "
        + ", ".join(f"{count} {path}" for path, count in cost.paths)
        + ". Bytes are estimated by the leaders' local records.",
    ]
    counts = {name: value for name, value in asdict(cost).items() if isinstance(value, int)}
    return Answer(
        {"broker": broker, **counts, "paths": dict(cost.paths), "ways": ways},
        lines,
        ("KIP-1023", "records", "bytes", f"time at {size_text(rate)}/s"),
        [(w["feature"], w["records"], size_text(w["bytes"]), span_text(int(w["seconds"] * 1000)))
         for w in ways],
    )  # fmt: skip
