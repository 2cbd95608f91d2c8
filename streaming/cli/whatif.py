"""``kafka-twin whatif``: the twin's rules over the newest snapshots, with something changed.

It reads the snapshots from the bus and calls ``twin.whatif``; it does not connect to the cluster.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial, reduce
from operator import add
from typing import Any, Final, TextIO

import click

from streaming.bus import snapshots
from streaming.runtime.config import Config, load
from streaming.runtime.errors import UserError
from streaming.runtime.terminal import table, width_of
from twin import plain
from twin import whatif as questions
from twin.proposals.kip1303_balance import BalancedLeadersKip1303
from twin.rules.coverage import Coverage
from twin.rules.election import Outcome
from twin.state import ShardState
from twin.table import NO_BROKER, UNKNOWN
from twin.tables.enums import CLUSTER_WIDE
from twin.tables.state import Brokers, PartitionIndex, Partitions

MOST_ROWS: Final = 50
GRID: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "": 1}
_UNITS_BYTES: Final = {
    "": 1,
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}


class WhatIfError(UserError):
    """The question cannot be answered; one line says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The output of a command: sentences and rows of a table; as JSON, the plain data."""

    data: dict[str, Any]
    lines: Sequence[str]
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]


class _Quantity(click.ParamType[int]):
    """A number with a unit."""

    def __init__(self, name: str, units: dict[str, int], examples: str) -> None:
        self.name, self._units, self._examples = name, units, examples

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", value)
        if match is None or match[2] not in self._units:
            self.fail(f"{value!r} is no {self.name}; write {self._examples}", param, ctx)
        return int(float(match[1]) * self._units[match[2]])


DURATION: Final = _Quantity("duration", _UNITS_MS, "10m, 90s, 2h or milliseconds")
SIZE: Final = _Quantity("size", _UNITS_BYTES, "100MiB, 2GiB or bytes")


@click.group()
def whatif() -> None:
    """Ask what would happen; change nothing.

    The rules are applied to the newest snapshots as if something were different.
    """


def _json_option(command: Callable[..., None]) -> Callable[..., None]:
    return click.option("--json", "as_json", is_flag=True, help="Plain data, all rows.")(command)


@whatif.command()
@click.option("--broker", "brokers", type=int, multiple=True, help="A broker to lose; repeatable.")
@click.option("--rack", "racks", multiple=True, help="All brokers of a rack; repeatable.")
@_json_option
@click.pass_obj
def lose(config: Any, brokers: tuple[int, ...], racks: tuple[str, ...], as_json: bool) -> None:
    """Lose brokers or racks at once.

    Shows who leads each affected partition then, and how safe that leader is.
    """
    if not brokers and not racks:
        raise WhatIfError("say what is lost: --broker 3, or --rack az-a; both may be repeated")
    _answer(config, lambda states: lost(states, brokers, racks), as_json)


@whatif.command()
@click.option("--ms", type=DURATION, default=UNKNOWN, help="Span of local log, e.g. 10m.")
@click.option("--bytes", "size", type=SIZE, default=UNKNOWN, help="Its size, e.g. 100MiB.")
@click.option("--grid", is_flag=True, help="A curve: a tenth to four times of what is given.")
@click.option("--topic", default=CLUSTER_WIDE, help="For this topic alone.")
@_json_option
@click.pass_obj
def threshold(config: Any, ms: int, size: int, grid: bool, topic: str, as_json: bool) -> None:
    """Set thresholds of KIP-1303.

    Cluster-wide, or for a topic. Shows which replicas are cold then, how leaders are spread over
    racks, and how long they stay out of balance. Topics with thresholds of their own keep them.
    """
    if ms <= 0 and size <= 0:
        raise WhatIfError("say a threshold: --ms 10m, --bytes 100MiB, or both")
    shares = GRID if grid else (1.0,)
    _answer(config, lambda states: thresholds(states, ms, size, shares, topic), as_json)


@whatif.command()
@click.option("--broker", type=int, required=True, help="The broker whose disk is empty.")
@click.option("--new", "is_new", is_flag=True, help="It is not there yet.")
@click.option(
    "--rate", type=SIZE, default="50MiB", show_default=True, help="Bytes it copies a second."
)
@_json_option
@click.pass_obj
def bootstrap(config: Any, broker: int, is_new: bool, rate: int, as_json: bool) -> None:
    """Let an empty broker join.

    Shows what it copies with KIP-1023 and without: the replicas assigned to it, or a fair share of
    all replicas if it has none.
    """
    if rate <= 0:
        raise WhatIfError("--rate must be positive")
    _answer(config, lambda states: bootstrapped(states, broker, rate, is_new), as_json)


@whatif.command()
@click.option("--local-ms", type=DURATION, default=UNKNOWN, help="local.retention.ms, e.g. 1h.")
@click.option("--local-bytes", type=SIZE, default=UNKNOWN, help="local.retention.bytes.")
@_json_option
@click.pass_obj
def retention(config: Any, local_ms: int, local_bytes: int, as_json: bool) -> None:
    """Change local retention of tiered topics.

    Shows which replicas are cold then, and how far local logs reach back. Logs above the new limit
    are treated as truncated at once; raising the limit shows no effect until logs grow.
    """
    if local_ms == UNKNOWN and local_bytes == UNKNOWN:
        raise WhatIfError("say a retention: --local-ms 1h, --local-bytes 10GiB, or both")
    _answer(config, lambda states: retained(states, local_ms, local_bytes), as_json)


def _answer(config: Any, question: Callable[[list[ShardState]], Answer], as_json: bool) -> None:
    print_answer(question(read(load(config))), as_json, sys.stdout)


def read(config: Config) -> list[ShardState]:
    """The newest snapshot of every shard; prints a note if it is old.

    Raises:
        BusError: the bus cannot be read.
        WhatIfError: it does not hold a snapshot of every shard.
    """
    view = snapshots.newest(config)
    if len(view.shards) < view.shards_expected:
        refused = "; ".join(f"{n} refused: {why}" for why, n in view.snapshots_refused.items())
        raise WhatIfError(
            f"the bus holds snapshots of {len(view.shards)} of {view.shards_expected} shards of "
            f"cluster {config.cluster.name}: do collector and query run? {refused}".rstrip()
        )
    if old := view.why_not_up(time.time_ns() // 1_000_000):
        click.echo(f"note: {old}", err=True)
    return [shard.state for shard in view.shards]


def lost(states: Sequence[ShardState], brokers: Collection[int], racks: Collection[str]) -> Answer:
    """The answer to ``lose``.

    Raises:
        WhatIfError: a broker or rack that does not exist.
    """
    existing = _brokers(states)
    names = {str(rack) for state in states for rack in state[Brokers].rack if rack}
    for rack in racks:
        if rack not in names:
            raise WhatIfError(f"no broker is in rack {rack!r}; racks are {sorted(names)}")
    gone = sorted({*brokers, *(b for f in states for b in questions.brokers_in(f, racks))})
    for broker in gone:
        _check_broker(broker, existing)
    rows = [row for state in states for row in _losses(state, gone)]
    rows.sort(key=lambda r: (-_WORST[r["outcome_kafka"]], r["topic"], r["partition"]))
    offline = sum(row["next_leader_kafka"] == NO_BROKER for row in rows)
    short = sum(row["isr"] < row["min_isr"] for row in rows)
    line = (
        f"Losing {_listed(gone)}: {len(rows)} partitions lose their leader or too many replicas; "
        f"{offline} go offline, {short} end under min ISR."
    )
    columns = _loss_columns(states, rows)
    return Answer(
        {"brokers": gone, "offline": offline, "under_min_isr": short, "partitions": rows},
        [line],
        tuple(columns),
        [tuple(cell(row) for cell in columns.values()) for row in rows],
    )


def _losses(state: ShardState, gone: Sequence[int]) -> list[dict[str, Any]]:
    """Partitions of one shard that lose their leader with those brokers, or end under min ISR."""
    losses, topics = questions.lose(state, gone), state.topic_names()
    numbers, leaders = state[PartitionIndex].partition, state[Partitions].leader
    rows = []
    for i, row in enumerate(losses.row.tolist()):
        loss: dict[str, Any] = {
            "topic": str(topics[row]),
            "partition": int(numbers[row]),
            "leader": int(leaders[row]),
        }
        for rule, following in (("kafka", losses.kafka), ("kip1303", losses.kip1303)):
            if following is not None:
                loss[f"next_leader_{rule}"] = int(following.leader[i])
                loss[f"outcome_{rule}"] = plain.name(Outcome, following.outcome[i])
                loss[f"coverage_{rule}"] = plain.name(Coverage, following.coverage[i])
        loss |= {"isr": int(losses.isr[i]), "min_isr": int(losses.min_isr[i])}
        loss |= {name: plain.integer(values[i]) for name, values in losses.fields.items()}
        rows.append(loss)
    return rows


def _loss_columns(
    states: Sequence[ShardState], rows: Sequence[dict[str, Any]]
) -> dict[str, Callable[[dict[str, Any]], Any]]:
    """Headings and cells. What rules add is shown where it is known of some partition."""
    columns: dict[str, Callable[[dict[str, Any]], Any]] = {
        "partition": lambda r: f"{r['topic']}-{r['partition']}",
        "led by": lambda r: _who(r["leader"]),
        "next (Kafka)": lambda r: _who(r["next_leader_kafka"]),
        "safety": lambda r: _safety(r, "kafka"),
    }
    if any("outcome_kip1303" in row for row in rows):
        columns["next (KIP-1303)"] = lambda r: _who(r["next_leader_kip1303"])
        columns["safety "] = lambda r: _safety(r, "kip1303")
    columns["ISR"] = lambda r: f"{r['isr']}/{r['min_isr']}"
    for field in states[0].catalog.loss_fields if states else ():
        if any(row[field.name] is not None for row in rows):
            columns[field.heading] = partial(_cell, field.name)
    return columns


def _cell(name: str, row: dict[str, Any]) -> str:
    return "-" if row[name] is None else str(row[name])


def thresholds(
    states: Sequence[ShardState],
    ms: int,
    size: int,
    shares: Iterable[float],
    topic: str = CLUSTER_WIDE,
) -> Answer:
    """The answer to ``threshold``: a row for each share of what is asked.

    Raises:
        WhatIfError: KIP-1303 is switched off, or there is no such topic.
    """
    if any(BalancedLeadersKip1303 not in state.catalog.rules for state in states):
        raise WhatIfError("proposals.kip1303 is off: only KIP-1303 elects leaders by a threshold")
    own = sum(map(questions.topics_with_thresholds, states))
    whose = "cluster-wide" + (f" ({own} topics keep thresholds of their own)" if own else "")
    if topic:
        states = [part for state in states if (part := questions.of_topic(state, topic)).partitions]
        whose = f"for topic {topic}"
        if not states:
            raise WhatIfError(f"there is no topic {topic}")
    judged = []
    for share in shares:
        span, held = (max(int(v * share), 1) if v > 0 else UNKNOWN for v in (ms, size))
        parts = [questions.eligibility(state, span, held, topic) for state in states]
        judged.append(reduce(add, parts))
    rows = [_threshold_row(one) for one in judged]
    return Answer(
        {"topic": topic or None, "thresholds": rows},
        [
            f"With these thresholds {whose}, once leaders are balanced under KIP-1303. Until their "
            "preferred leaders are warm, partitions are led from elsewhere.",
        ],
        ("span", "bytes", "cold replicas", "cold leaders", "next leaders cold", "leaders moved",
         "unreachable", "rack skew", "out of balance", "balanced in"),
        [
            (_span(r["local_log_ms"]), _size(r["local_log_bytes"]), r["cold_replicas"],
             r["cold_leaders"], r["next_leaders_cold"], r["moved_leaders"],
             r["unreachable_partitions"], r["rack_skew"], r["preferred_cold"], _balanced_in(r))
            for r in rows
        ],
    )  # fmt: skip


def _threshold_row(one: questions.Eligibility) -> dict[str, Any]:
    return {
        "local_log_ms": one.local_log_ms,
        "local_log_bytes": one.local_log_bytes,
        "cold_replicas": one.cold_replicas,
        "cold_leaders": one.cold_leaders,
        "next_leaders_cold": one.next_leaders_cold,
        "moved_leaders": one.moved_leaders,
        "unreachable_partitions": one.unreachable_partitions,
        "rack_skew": None if one.rack_skew != one.rack_skew else round(one.rack_skew, 3),
        "leaders_by_rack": dict(one.leaders_by_rack),
        "preferred_cold": one.preferred_cold,
        "preferred_eta_unknown": one.preferred_eta_unknown,
        "preferred_never_warm": one.preferred_never_warm,
        "balanced_in_s": round(one.balanced_in_s, 3),
    }


def _balanced_in(row: dict[str, Any]) -> str:
    """How long leaders stay out of balance: of those that are known, and what is not."""
    never, unknown = row["preferred_never_warm"], row["preferred_eta_unknown"]
    parts = [f"{never} never"] if never else []
    parts += [f"{unknown} unknown"] if unknown else []
    if row["preferred_cold"] > never + unknown or not parts:
        parts.insert(0, _span(int(row["balanced_in_s"] * 1_000)))
    return ", ".join(parts)


def bootstrapped(
    states: Sequence[ShardState], broker: int, rate: int, is_new: bool = False
) -> Answer:
    """The answer to ``bootstrap``.

    Raises:
        WhatIfError: the broker does not exist, or is to be new and does.
    """
    others = [other for other in _brokers(states) if other != broker]
    if not is_new:
        _check_broker(broker, _brokers(states), "; --new asks of one that is not there yet")
    elif broker in _brokers(states):
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
        ("KIP-1023", "records", "bytes", f"time at {_size(rate)}/s"),
        [(w["feature"], w["records"], _size(w["bytes"]), _span(int(w["seconds"] * 1000)))
         for w in ways],
    )  # fmt: skip


def retained(states: Sequence[ShardState], local_ms: int, local_bytes: int) -> Answer:
    """The answer to ``retention``."""
    changed = [questions.with_local_retention(state, local_ms, local_bytes) for state in states]
    now, then = (reduce(add, map(questions.local_footprint, each)) for each in (states, changed))
    return Answer(
        {"now": _finite(asdict(now)), "then": _finite(asdict(then))},
        [f"{now.replicas} replicas of tiered topics; sizes as if each log were evenly dense."],
        ("", "now", "then"),
        [("cold replicas", now.cold, then.cold),
         ("... that stay cold", now.cold_for_good, then.cold_for_good),
         ("local log", _size(now.bytes), _size(then.bytes)),
         ("span kept, busiest", _reach(now.shortest_span_ms), _reach(then.shortest_span_ms)),
         ("span kept, calmest", _reach(now.longest_span_ms), _reach(then.longest_span_ms))],
    )  # fmt: skip


def print_answer(answer: Answer, as_json: bool, out: TextIO) -> None:
    """Print the answer for a person, or as one line of JSON."""
    if as_json:
        out.write(json.dumps(answer.data) + "\n")
        return
    for line in answer.lines:
        out.write(line + "\n")
    if not answer.rows:
        return
    out.write(table(answer.header, answer.rows[:MOST_ROWS], borders=True, width=width_of(out)))
    if len(answer.rows) > MOST_ROWS:
        out.write(f"{len(answer.rows) - MOST_ROWS} more; --json has all of them\n")


_WORST: Final = {outcome.name.lower(): int(outcome) for outcome in Outcome}


def _safety(row: dict[str, Any], rule: str) -> str:
    """How safe the next leader is, and whether it is warm or cold."""
    coverage = row[f"coverage_{rule}"]
    return str(row[f"outcome_{rule}"]) + (f", {coverage}".replace("_", " ") if coverage else "")


def _brokers(states: Sequence[ShardState]) -> list[int]:
    return sorted({int(broker) for state in states for broker in state[Brokers].broker})


def _check_broker(broker: int, existing: Sequence[int], hint: str = "") -> None:
    if broker not in existing:
        raise WhatIfError(f"there is no broker {broker}; brokers are {_listed(existing)}{hint}")


def _listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"


def _who(broker: int) -> str:
    return "nobody" if broker == NO_BROKER else str(broker)


def _size(value: int) -> str:
    if value == UNKNOWN:
        return "-"
    unit = max((u for u in ("B", "KiB", "MiB", "GiB", "TiB") if value >= _UNITS_BYTES[u]),
               key=lambda u: _UNITS_BYTES[u], default="B")  # fmt: skip
    return f"{value / _UNITS_BYTES[unit]:.4g} {unit}"


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """The values for JSON: null for no limit and for unknown."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def _reach(span_ms: float) -> str:
    """A span that may have no limit or be unknown."""
    if math.isfinite(span_ms):
        return _span(int(span_ms))
    return "unknown" if math.isnan(span_ms) else "no limit"


def _span(value_ms: int) -> str:
    if value_ms == UNKNOWN:
        return "-"
    unit = max((u for u in ("ms", "s", "m", "h", "d") if value_ms >= _UNITS_MS[u]),
               key=lambda u: _UNITS_MS[u], default="ms")  # fmt: skip
    return f"{value_ms / _UNITS_MS[unit]:.4g} {unit}"
