"""Brokers with different defaults: a log is deleted and rolled by those of the broker it is on."""

import pytest

from tests.builders import Partition, a_state
from twin.declarations.table import UNKNOWN
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.tables.enums import NOT_SET, UNLIMITED, InheritedLimit

NO_LIMIT, LIKE_TOTAL = -3, -2
ALL = sum(InheritedLimit)
TOTAL, LOCAL = InheritedLimit.RETENTION_MS, InheritedLimit.LOCAL_RETENTION_MS
FOLLOWS = InheritedLimit.LOCAL_MS_IS_RETENTION_MS
DESCRIBED = {
    "retention_ms": 100, "retention_bytes": 1_000, "local_retention_ms": 10,
    "local_retention_bytes": 100, "segment_ms": 50, "segment_bytes": 500,
}  # fmt: skip


def limits(inherited, leader=1, **own):
    """What holds for a partition; ``own``: a default of brokers 1 and 2, by column."""
    settings = {f"default_{name}": {1: a, 2: b} for name, (a, b) in own.items()}
    state = a_state(
        Partition(leader=leader),
        brokers=(1, 2, 3),
        own_settings=settings,
        topics={"t": DESCRIBED | {"inherited_limits": inherited}},
    )
    configs = state[TopicConfigs]
    return {name: int(getattr(configs, name)[0]) for name in DESCRIBED}


def test_the_leaders_broker_deletes_and_rolls_by_its_own_defaults():
    own = {"retention_ms": (200, 100), "segment_ms": (70, 50), "segment_bytes": (900, 500)}
    inherited = ALL - FOLLOWS - InheritedLimit.LOCAL_BYTES_IS_RETENTION_BYTES
    assert limits(inherited, leader=1, **own) == DESCRIBED | {
        "retention_ms": 200,
        "segment_ms": 70,
        "segment_bytes": 900,
    }
    assert limits(inherited, leader=2, **own) == DESCRIBED


def test_what_the_topic_sets_is_the_topics():
    own = {"retention_ms": (200, 100), "segment_ms": (70, 50)}
    assert limits(0, **own) == DESCRIBED
    assert limits(UNKNOWN, **own) == DESCRIBED  # the settings could not be read


@pytest.mark.parametrize("own", [UNKNOWN, 0])
def test_a_default_that_is_not_known_changes_nothing(own):
    assert limits(ALL, segment_ms=(own, 50))["segment_ms"] == 50


def test_a_partition_without_a_leader_has_the_described_limits():
    own = {"retention_ms": (200, 300)}
    assert limits(TOTAL, leader=-1, **own)["retention_ms"] == 100


@pytest.mark.parametrize(
    ("inherited", "local", "expected"),
    [
        (TOTAL | LOCAL, 40, (200, 40)),
        (TOTAL | LOCAL, LIKE_TOTAL, (200, 200)),
        (LOCAL, LIKE_TOTAL, (100, 100)),
        (TOTAL | LOCAL, NO_LIMIT, (200, UNLIMITED)),
        (TOTAL | FOLLOWS, 40, (200, 200)),
        (TOTAL, 40, (200, 10)),
        (TOTAL | LOCAL, UNKNOWN, (200, 10)),
    ],
)
def test_local_retention_is_that_of_the_topic_the_broker_or_the_whole_log(
    inherited, local, expected
):
    found = limits(inherited, retention_ms=(200, 100), local_retention_ms=(local, 10))
    assert (found["retention_ms"], found["local_retention_ms"]) == expected


def test_a_broker_that_deletes_nothing_deletes_nothing():
    found = limits(TOTAL | FOLLOWS, retention_ms=(NO_LIMIT, 100))
    assert (found["retention_ms"], found["local_retention_ms"]) == (UNLIMITED, UNLIMITED)


def test_a_limit_that_nobody_told_stays_unknown():
    state = a_state(
        Partition(),
        brokers=(1, 2),
        own_settings={"default_local_retention_ms": {1: LIKE_TOTAL, 2: 5}},
        topics={"t": {"inherited_limits": int(LOCAL)}},
    )
    assert state[TopicConfigs].local_retention_ms[0] == NOT_SET
