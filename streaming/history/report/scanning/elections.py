"""Losses of leaders: what was predicted, for how long, and what other election rules would do.

An open loop: one decision is taken otherwise, with all that was known in the cycle before it. What
would have followed from that is not computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Final

import numpy as np

from streaming.history.report.happenings import UNCLEAN_BY_HAND, Happening
from streaming.history.report.model import Foretold, ForetoldLeader, OtherRule
from streaming.history.report.scanning.measures import places
from twin.declarations.table import KAFKA, NO_BROKER, UNKNOWN, Array, Int64
from twin.engine.rows import common_rows
from twin.engine.shard_state import ShardState
from twin.kafka.election import Outcome
from twin.rules.election.next_leader import NextLeaders
from twin.rules.election.predictions import Cause, Predictions, Result
from twin.rules.tiering.coverage import Coverage

MOST_LEADERS: Final = 200
"""Leaders that are listed one by one."""

_KIP501: Final = "kip501"
_UNCLEAN: Final = (Outcome.LAST_KNOWN, Outcome.UNCLEAN)


@dataclass(slots=True)
class Elections:
    """Collects, cycle by cycle. The predictions of a shard are [P], in the order of its state."""

    begin_ms: int
    leaders: list[ForetoldLeader] = field(default_factory=list)
    results: Counter[str] = field(default_factory=Counter)
    right_stood_s: list[float] = field(default_factory=list)
    rules: dict[str, Counter[str]] = field(default_factory=dict)
    by_hand: list[Happening] = field(default_factory=list)
    causes: dict[tuple[str, int, int], str] = field(default_factory=dict)
    """By topic, partition and time: why the leader changed, as the twin judged it."""
    _since_ms: dict[int, Int64] = field(default_factory=dict)

    def first(self, state: ShardState) -> None:
        """A shard as it is when the span begins, or when it is first observed."""
        self._since_ms[state.shard] = np.full(state.partitions, state.observed_at_ms)

    def step(self, was: ShardState, now: ShardState) -> None:
        """The next cycle of a shard."""
        old_row = common_rows(was, now)
        old_since = self._since_ms[now.shard]
        self._judge(was, now, old_row, old_since)
        leader, old = now[NextLeaders].leader, was[NextLeaders].leader
        both = old_row != UNKNOWN
        stays = np.zeros(len(leader), bool)
        stays[both] = leader[both] == old[old_row[both]]
        since = np.full(len(leader), now.observed_at_ms)
        since[stays] = old_since[old_row[stays]]
        self._since_ms[now.shard] = since

    def _judge(self, was: ShardState, now: ShardState, old_row: Array, since_ms: Int64) -> None:
        judged = now[Predictions]
        judged = judged.pick(judged.at_ms == now.observed_at_ms)
        if not len(judged):
            return
        names = places(now, judged.row)
        for cause, place in zip(judged.cause.tolist(), names, strict=True):
            self.causes[(*place, now.observed_at_ms)] = Cause(cause).name.lower()
        self.by_hand += [
            Happening(
                UNCLEAN_BY_HAND, now.observed_at_ms,
                f"somebody held an unclean election for {topic}-{partition}", topic, partition,
            )
            for is_by_hand, (topic, partition) in zip(
                (judged.cause == Cause.OPERATOR).tolist(), names, strict=True
            )
            if is_by_hand
        ]  # fmt: skip
        is_loss = judged.cause == Cause.LOSS
        losses = judged.pick(is_loss)
        old = old_row[losses.row]
        self._note(losses, [n for n, is_ in zip(names, is_loss, strict=True) if is_], old, since_ms)
        self._compare(was, losses, old)

    def _note(
        self, losses: Predictions, names: list[tuple[str, int]], old: Array, since_ms: Int64
    ) -> None:
        for i, (topic, partition) in enumerate(names):
            result = Result(int(losses.result[i])).name.lower()
            stood_ms = UNKNOWN if old[i] == UNKNOWN else int(since_ms[old[i]])
            stood_s = None if stood_ms == UNKNOWN else (int(losses.at_ms[i]) - stood_ms) / 1_000
            self.results[result] += 1
            if result == "right" and stood_s is not None:
                self.right_stood_s.append(stood_s)
            is_wrong = result != "right"
            if len(self.leaders) >= MOST_LEADERS and not is_wrong:
                continue
            self.leaders.append(
                ForetoldLeader(
                    int(losses.at_ms[i]), topic, partition, int(losses.old_leader[i]),
                    int(losses.predicted_leader[i]), int(losses.new_leader[i]),
                    result,  # type: ignore[arg-type]
                    None if result == "unforeseen" else stood_s, stood_ms == self.begin_ms,
                )
            )  # fmt: skip

    def _compare(self, was: ShardState, losses: Predictions, old: Array) -> None:
        """The decisions of other rules, where Kafka's own was predicted right."""
        is_judged = (old != UNKNOWN) & (losses.result == Result.RIGHT)
        row = old[is_judged]
        kafka = was[NextLeaders].take(row)
        for rule in was.catalog.election_rules:
            if rule == KAFKA:
                continue
            other = was[NextLeaders.under(rule)].take(row)
            counts = self.rules.setdefault(rule, Counter())
            differs = other.leader != kafka.leader
            served = np.isin(other.coverage, (Coverage.WARM, Coverage.ASSUMED))
            counts["judged"] += len(row)
            counts["not_judged"] += int((~is_judged).sum())
            counts["other_leader"] += int(differs.sum())
            counts["warm_for_cold"] += int(
                (differs & (kafka.coverage == Coverage.COLD) & served).sum()
            )
            counts["leader_for_nobody"] += int(
                (differs & (kafka.leader == NO_BROKER) & (other.leader != NO_BROKER)).sum()
            )
            counts["clean_for_unclean"] += int(
                (
                    differs & np.isin(kafka.outcome, _UNCLEAN) & (other.outcome == Outcome.CLEAN)
                ).sum()
            )

    # ------------------------------------------------------------ what the report says

    def foretold(self) -> Foretold:
        """Counts of all losses, and the first of them one by one."""
        stood = self.right_stood_s
        order = sorted(self.leaders, key=lambda each: (each.result == "right", each.at_ms))
        return Foretold(
            losses=sum(self.results.values()),
            right=self.results["right"],
            wrong=self.results["wrong"],
            overtaken=self.results["overtaken"],
            unforeseen=self.results["unforeseen"],
            shortest_s=min(stood, default=None),
            median_s=median(stood) if stood else None,
            leaders=order[:MOST_LEADERS],
        )

    def others(self, titles: Mapping[str, str], happenings: Iterable[Happening]) -> list[OtherRule]:
        """What each other rule would have done."""
        explained = [each.name for each in happenings if each.kind == "isr_shrink_explained"]
        avoided = sum(name.split("/")[1:2] == ["1"] for name in explained)
        return [
            OtherRule(
                rule, titles[rule], counts["judged"], counts["not_judged"],
                counts["other_leader"], counts["warm_for_cold"], counts["leader_for_nobody"],
                counts["clean_for_unclean"],
                avoided if rule == _KIP501 and explained else None,
            )
            for rule, counts in sorted(self.rules.items())
        ]  # fmt: skip
