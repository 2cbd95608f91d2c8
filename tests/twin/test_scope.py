"""A finding about a partition is the same for any number of shards and on any page."""

from __future__ import annotations

import numpy as np
import pytest

from tests.modules import module_of
from tests.scope import assert_local
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG, catalog
from twin.declarations.declare import Alert, risk, rule
from twin.declarations.signature import DeclarationError
from twin.declarations.table import Float64, PartitionTable, column
from twin.rules.tiering.coverage import LocalLog
from twin.tables.state import Partitions

NOW_MS = 1_800_000_000_000
SHAPE = Shape(topics=25, partitions=2, brokers=5, cold_share=0.2, fetches=True, tier=True, groups=3)
TOPICS = tuple(f"topic-0-{i}" for i in range(SHAPE.topics))


def cycles(seed: int, count: int = 6):
    """A cluster with traffic: followers leave their ISRs, a broker is lost and comes back."""
    cluster = SimulatedShard(SHAPE, seed)
    for i in range(count):
        if i == 2:
            cluster.lose(1 + seed % SHAPE.brokers)
        if i == 4:
            cluster.restore(1 + seed % SHAPE.brokers)
        cluster.traffic(5_000)
        if i == 1:  # one follower in some partitions, every one in another
            for row, slot in ((0, 1), (0, 2), (3, 1), (8, 2), (13, 1), (20, 2), (31, 1)):
                cluster.shrink(row, slot)
        yield cluster.observe(NOW_MS + i * 5_000), NOW_MS + i * 5_000


@pytest.mark.parametrize("seed", range(2))
def test_every_rule_finds_the_same_for_any_number_of_shards_and_on_any_page(seed):
    assert_local(CATALOG, list(cycles(seed)), TOPICS)


class LogShare(PartitionTable, kind="log_share"):
    """[P] the partition's share of all local log that the rule sees."""

    share: Float64 = column("its share")


@rule
def log_share(local: LocalLog, partitions: Partitions) -> LogShare:
    """A newcomer's rule: a sum over what is taken for the cluster."""
    held = local.held_bytes[:, 0].astype(float)
    return LogShare(held / max(held.sum(), 1.0))


@risk(
    "log_skewed", rank=999, severity="info", sentence="it has a large share", source="",
    alert=Alert("", "", "0s", "0s"),
)  # fmt: skip
def is_skewed(share: LogShare) -> np.ndarray:
    """More than even shares of the whole cluster are."""
    return share.share > 0.03


class RankOnDemand(PartitionTable, kind="log_rank", on_demand="for this test", api=""):
    """[P] how many partitions of a page hold less."""

    rank: Float64 = column("its rank")


@rule
def log_rank(local: LocalLog) -> RankOnDemand:
    """Readers compute it for the partitions of a page, so it differs from page to page."""
    return RankOnDemand(local.held_bytes[:, 0].argsort().argsort().astype(float))


def test_a_table_on_demand_that_is_not_local_to_its_rows_is_refused_with_its_name():
    made = catalog(more=(module_of("elsewhere", RankOnDemand, log_rank),))
    with pytest.raises(DeclarationError, match=r"^log_rank: findings about"):
        assert_local(made, list(cycles(0)), TOPICS)


def test_a_rule_that_sums_over_its_shard_is_refused_with_its_name():
    made = catalog(more=(module_of("elsewhere", LogShare, log_share, is_skewed),))
    with pytest.raises(DeclarationError, match=r"^log_share, risk log_skewed: findings about"):
        assert_local(made, list(cycles(0)), TOPICS)
