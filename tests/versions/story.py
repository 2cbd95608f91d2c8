"""A broker is lost and comes back: what the twin said at each moment, and what Kafka did."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.cluster.broker_client import Key
from tests.cluster.watching import by_partition
from tests.versions.numbers import Comparison, compare, known_fields
from tests.versions.releases import Release
from tests.versions.stage import LOST, Stage
from tests.versions.tools import Described
from twin.engine.shard_state import ShardState
from twin.rules.election.next_leader import NextLeaders
from twin.tables.state import Brokers, Partitions

BEFORE: Final = "all up"
LOST_ONE: Final = "one lost"
BACK: Final = "back"
FINALIZED: Final = "metadata.version finalized"


@dataclass(frozen=True)
class BrokerRow:
    """A broker as the twin lists it."""

    answered: bool
    fenced: int
    rack: str
    host: str
    kafka_version: str


@dataclass
class Account:
    """The result of a story, or of several on one cluster."""

    check: subprocess.CompletedProcess[str]
    numbers: dict[str, Comparison] = field(default_factory=dict)
    """By the moment at which they were compared."""
    brokers: dict[str, dict[int, BrokerRow]] = field(default_factory=dict)
    predicted: list[tuple[Key, int, int]] = field(default_factory=list)
    """Partition, the leader that the twin predicted, and the one that Kafka elected."""
    known_fields: set[str] = field(default_factory=set)
    """Fields of the API that had a value for anything at any moment."""

    def take(self, stage: Stage, moment: str, *, lost: int = 0) -> ShardState:
        """Compare the numbers of a moment, and keep what the twin knows."""
        running = [node for node in stage.cluster.layout.ids if node != lost]
        kinds = stage.release.offset_kinds
        numbers = compare(stage.watch, stage.tools, kinds, running)
        state = stage.watch.state
        listed = broker_rows(state)
        numbers.add("registered brokers", list(listed), list(stage.cluster.layout.ids))
        for broker, row in listed.items():
            numbers.add(f"answered of broker {broker}", row.answered, broker != lost)
            numbers.add(f"rack of broker {broker}", row.rack, stage.cluster.layout.rack(broker))
            if moment in (BEFORE, LOST_ONE, BACK):  # when all run the same
                version = stage.release.kafka_version
                numbers.add(f"version of broker {broker}", row.kafka_version or None, version)
            if stage.release.lists_fenced:
                numbers.add(f"fenced of broker {broker}", row.fenced, int(broker == lost))
        self.numbers[moment] = numbers
        self.brokers[moment] = listed
        self.known_fields |= known_fields(state)
        return state

    def judge(self, predicted: Mapping[Key, int], after: Mapping[Key, Described]) -> None:
        """Set predictions against the leaders that Kafka elected."""
        self.predicted += [(key, leader, after[key].leader) for key, leader in predicted.items()]

    @property
    def wrong_predictions(self) -> list[tuple[Key, int, int]]:
        return [each for each in self.predicted if each[1] != each[2]]


def broker_rows(state: ShardState) -> dict[int, BrokerRow]:
    """The twin's brokers by id."""
    table = state[Brokers]
    return {
        broker: BrokerRow(
            bool(table.answered[row]), int(table.fenced[row]), table.rack[row], table.host[row],
            table.kafka_version[row],
        )
        for row, broker in enumerate(table.broker.tolist())
    }  # fmt: skip


def foretold(state: ShardState, broker: int) -> dict[Key, int]:
    """The next leader of each partition that a broker leads, as the twin predicts it."""
    leader = by_partition(state, state[Partitions].leader)
    following = by_partition(state, state[NextLeaders].leader)
    return {key: following[key] for key in leader if leader[key] == broker}


def play(stage: Stage, folder: Path) -> Account:
    """Prepare the cluster, kill a broker, start it again.

    Args:
        stage: a cluster that has just been started.
        folder: where the configuration of ``kafka-twin check`` is written.
    """
    stage.prepare()
    account = Account(stage.check(folder))
    _lose_and_restore(stage, account, account.take(stage, BEFORE))
    return account


def _lose_and_restore(stage: Stage, account: Account, before: ShardState) -> None:
    predicted = foretold(before, LOST)
    stage.cluster.kill(LOST)
    account.judge(predicted, stage.leaders_after(LOST))
    stage.watch.look()  # whoever forgets a broker that is no longer listed forgets it here
    account.take(stage, LOST_ONE, lost=LOST)
    stage.restore()
    account.take(stage, BACK)


def upgrade(stage: Stage, to: Release, folder: Path) -> Account:
    """Restart every broker with another release while the twin runs; then lose one and restore it.

    ``kafka-twin check`` runs when one broker is newer than the others.
    """
    stage.prepare(with_behind=False)
    nodes = stage.cluster.layout.ids
    account: Account | None = None
    before = stage.watch.look()
    for number, node in enumerate(nodes, start=1):
        predicted = foretold(before, node)
        stage.cluster.term(node)
        after = stage.leaders_after(node)
        stage.cluster.use(to.folder)
        stage.cluster.start([node])
        stage.await_in_sync()
        account = account or Account(stage.check(folder))
        account.judge(predicted, after)
        before = account.take(stage, f"{number} of {len(nodes)} on {to.version}")
    assert account is not None
    stage.release = to
    stage.finalize()
    _lose_and_restore(stage, account, account.take(stage, FINALIZED))
    return account
