"""The answer to ``lose``: partitions that lose their leader, or too many replicas."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, TypedDict

import numpy as np

from streaming.bus.quorum_view import elects
from streaming.bus.view import ClusterView
from streaming.questions.answer import (
    Answer,
    NotThereError,
    broker_or_nobody,
    brokers_of,
    check_broker,
    harm_lines,
    listed,
    safety_words,
)
from streaming.questions.parameters import MAX_ROWS, limit, number, text
from streaming.questions.question import question
from streaming.questions.room.data import ReplacingBroker, room_of_replacing
from streaming.questions.room.words import held_lines, room_lines
from streaming.runtime.config import Config
from streaming.runtime.plugins import catalog_of
from twin.arrays import keys, plain
from twin.declarations.table import KAFKA, Rows
from twin.engine.shard_state import ShardState
from twin.kafka.election import Outcome
from twin.questions import whatif
from twin.questions.whatif_groups import HurtGroup, hurt_by_loss, together
from twin.rules.election.next_leader import NOBODY
from twin.rules.election.unclean_successors import SuccessorCosts
from twin.rules.tiering.coverage import Coverage
from twin.tables.state import Brokers, PartitionIndex, Partitions


class LossEffect(TypedDict):
    """The lost brokers, and the partitions that lose their leader or end under min ISR.

    ``elects``: a majority of the controllers is left then, so that the next leaders are elected;
    null if that is unknown.
    ``outcomes`` counts, by rule, outcome and coverage of the next leader, those that lose theirs.
    Others hold no more for that. ``room`` is that of empty brokers in place of the lost ones.
    """

    brokers: list[int]
    elects: bool | None
    total: int
    offline: int
    under_min_isr: int
    outcomes: dict[str, dict[str, dict[str, int]]]
    partitions: list[dict[str, Any]]
    groups: list[HurtGroup]
    room: list[ReplacingBroker]


def brokers_lost(
    states: Sequence[ShardState], brokers: Collection[int], racks: Collection[str]
) -> list[int]:
    """The ids of those brokers and of all brokers of those racks.

    Raises:
        NotThereError: a broker or rack that does not exist.
    """
    existing = brokers_of(states)
    names = {str(rack) for state in states for rack in state[Brokers].rack if rack}
    for rack in racks:
        if rack not in names:
            raise NotThereError(f"no broker is in rack {rack!r}; racks are {sorted(names)}")
    gone = sorted({*brokers, *(b for f in states for b in whatif.brokers_in(f, racks))})
    for broker in gone:
        check_broker(broker, existing)
    return gone


def _outcomes(
    states: Sequence[ShardState], losses: Sequence[whatif.Loss], gone: Collection[int]
) -> dict[str, dict[str, dict[str, int]]]:
    """Counts of partitions that lose their leader, by rule, outcome and coverage of the next
    one."""
    changes = [
        whatif.on_brokers(state[Partitions].leader[loss.row], gone)
        for state, loss in zip(states, losses, strict=True)
    ]
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for rule in losses[0].next_leaders if losses else ():
        # As one number: unique of rows takes longer than the elections. From 1, since -1 is in
        # both where nobody leads.
        both = [
            keys.pack(following.outcome[here] + 1, following.coverage[here] + 1)
            for following, here in zip(
                (loss.next_leaders[rule] for loss in losses), changes, strict=True
            )
        ]
        pairs, numbers = np.unique(np.concatenate(both), return_counts=True)
        outcomes, coverages = keys.unpack(pairs)
        of_rule = counts.setdefault(rule, {})
        of_pair = (each.tolist() for each in (outcomes - 1, coverages - 1, numbers))
        for outcome, coverage, count in zip(*of_pair, strict=True):
            name = plain.name(Outcome, outcome) or NOBODY
            label = NOBODY if name == NOBODY else plain.name(Coverage, coverage) or NOBODY
            by_coverage = of_rule.setdefault(name, {})
            by_coverage[label] = by_coverage.get(label, 0) + count
    return counts


def _worst(
    states: Sequence[ShardState], losses: Sequence[whatif.Loss], most: int | None
) -> list[dict[str, Any]]:
    """The partitions with the worst outcomes, cold leaders first, then by topic and number."""
    badness = [loss.kafka.outcome * 2 + (loss.kafka.coverage == Coverage.COLD) for loss in losses]
    worst = np.concatenate(badness or [np.zeros(0, np.int8)])
    shard = np.repeat(np.arange(len(losses)), [len(loss.row) for loss in losses])
    place = np.concatenate([np.arange(len(loss.row)) for loss in losses] or [np.zeros(0, np.intp)])
    page = np.argsort(-worst, kind="stable")[:most]
    rows = []
    for index in np.unique(shard[page]).tolist():
        here = page[shard[page] == index]
        rows += _loss_rows(states[index], losses[index], np.sort(place[here]))
    rows.sort(key=_order)
    return rows


def _order(row: Mapping[str, Any]) -> tuple[int, bool, str, int]:
    following = row["next_leaders"][KAFKA]
    is_warm = following["coverage"] != "cold"
    return -_WORST[following["outcome"]], is_warm, row["topic"], row["partition"]


def _loss_rows(state: ShardState, losses: whatif.Loss, places: Rows) -> list[dict[str, Any]]:
    """Rows of partitions that lose their leader, or fall under min ISR."""
    topics, row = state.topic_names(), losses.row
    costs = whatif.successor_costs(state, losses, places)
    numbers, leaders = state[PartitionIndex].partition, state[Partitions].leader
    rows = []
    for at, i in enumerate(places.tolist()):
        loss: dict[str, Any] = {
            "topic": str(topics[row[i]]),
            "partition": int(numbers[row[i]]),
            "leader": int(leaders[row[i]]),
            "next_leaders": {
                rule: {
                    "leader": int(following.leader[i]),
                    "outcome": plain.name(Outcome, following.outcome[i]),
                    "coverage": plain.name(Coverage, following.coverage[i]),
                }
                for rule, following in losses.next_leaders.items()
            },
        }
        loss |= {"isr": int(losses.isr[i]), "min_isr": int(losses.min_isr[i])}
        loss |= {
            column.name: plain.integer(values[at])
            for column, values in zip(costs.columns, costs.values(), strict=True)
        }
        rows.append(loss)
    return rows


def _loss_columns(
    rows: Sequence[dict[str, Any]], titles: Mapping[str, str]
) -> dict[str, Callable[[dict[str, Any]], Any]]:
    """Headings and cells. An election rule has columns if it elects differently from Kafka."""
    columns: dict[str, Callable[[dict[str, Any]], Any]] = {
        "partition": lambda r: f"{r['topic']}-{r['partition']}",
        "led by": lambda r: broker_or_nobody(r["leader"]),
    }
    for rule in rows[0]["next_leaders"] if rows else ():
        by_rule = [(row["next_leaders"][rule], row["next_leaders"][KAFKA]) for row in rows]
        if rule == KAFKA or any(mine != kafka for mine, kafka in by_rule):
            title = titles.get(rule, rule)
            columns[f"next ({title})"] = partial(_next_leader, rule)
            columns[f"safety ({title})"] = partial(_safety, rule)
    columns["ISR"] = lambda r: f"{r['isr']}/{r['min_isr']}"
    for field in SuccessorCosts.columns:
        if any(row.get(field.name) is not None for row in rows):
            columns[field.name.replace("_", " ")] = partial(_cell, field.name)
    return columns


def _cell(name: str, row: dict[str, Any]) -> str:
    return "-" if row[name] is None else str(row[name])


_WORST: Final = {outcome.name.lower(): int(outcome) for outcome in Outcome}


def _next_leader(rule: str, row: dict[str, Any]) -> str:
    return broker_or_nobody(row["next_leaders"][rule]["leader"])


def _safety(rule: str, row: dict[str, Any]) -> str:
    return safety_words(row["next_leaders"][rule])


_NO_QUORUM: Final = (
    "No majority of the controllers would be left: none of these leaders is elected before one is "
    "back."
)


def _text(data: Mapping[str, Any]) -> Answer:
    """The answer with those data, for a person."""
    columns = _loss_columns(data["partitions"], catalog_of(Config()).election_rules)
    hit = plain.counted(data["total"], "partition loses its leader", "partitions lose their leader")
    line = (
        f"Losing {listed(data['brokers'])}: {hit} or too many replicas; "
        f"{plain.counted(data['offline'], 'goes', 'go')} offline, "
        f"{plain.counted(data['under_min_isr'], 'ends', 'end')} under min ISR."
    )
    rows = [tuple(cell(row) for cell in columns.values()) for row in data["partitions"]]
    lines = [line, *([] if data["elects"] in (True, None) else [_NO_QUORUM])]
    lines += harm_lines(data["groups"])
    lines += room_lines(data["room"], "on empty disks like those of broker {}".format)
    lines += held_lines(data["room"])
    return Answer(data, lines, tuple(columns), rows, data["total"])


@question(
    "if these brokers and racks are lost: who leads each affected partition, the worst first",
    text=_text,
    needs_one_of=("broker", "rack"),
    prompt="name what is lost",
    refusals={404: "there is no such broker or rack"},
)
def lose(
    view: ClusterView,
    *,
    broker: Annotated[Sequence[int], number("a broker to lose", example="3", repeated=True)] = (),
    rack: Annotated[Sequence[str], text("a rack to lose", example="az-a", repeated=True)] = (),
    limit: Annotated[int | None, limit("partitions", MAX_ROWS)] = None,
) -> LossEffect:
    """Lose brokers or racks at once.

    Shows who leads each affected partition then, and how safe that leader is. With --each it says
    which brokers can be lost, one at a time.
    """
    states = view.states
    gone = brokers_lost(states, broker, rack)
    losses = view.lose(gone)
    hurt = together(
        hurt_by_loss(state, gone, loss) for state, loss in zip(states, losses, strict=True)
    )
    return {
        "brokers": gone,
        "elects": elects(view, gone),
        "total": sum(len(loss.row) for loss in losses),
        "offline": sum(int(loss.offline.sum()) for loss in losses),
        "under_min_isr": sum(int(loss.under_min_isr.sum()) for loss in losses),
        "outcomes": _outcomes(states, losses, gone),
        "partitions": _worst(states, losses, limit),
        "groups": hurt,
        "room": room_of_replacing(view, gone),
    }
