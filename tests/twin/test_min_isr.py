"""min.insync.replicas, as the leader of each partition applies it."""

import pytest

from tests.builders import Partition, a_state
from tests.reading import conditions
from twin.declarations.table import UNKNOWN
from twin.rules.partitions.topic_configs import ControllerMinIsr, LeaderMinIsr


@pytest.mark.parametrize(
    ("inherited", "own", "expected"),
    [
        (1, {1: 3, 2: 1}, 3),  # KAFKA 17952: the leader has 3, the broker that was asked 1
        (1, {2: 3}, 1),  # the leader's broker did not say
        (1, {1: 9}, 3),  # at most the number of replicas
        (0, {1: 3}, 1),  # the topic has its own
        (UNKNOWN, {1: 3}, 1),
    ],
)
def test_a_topic_without_its_own_has_that_of_its_leaders_broker(inherited, own, expected):
    settings = {"min_insync_replicas": 1, "min_isr_inherited": inherited}
    part = Partition(isr=(1, 2))
    state = a_state(part, topics={"t": settings}, own_settings={"default_min_isr": own})
    assert state[LeaderMinIsr].min_isr.tolist() == [expected]
    assert state[ControllerMinIsr].controller_min_isr.tolist() == [1]
    assert ("under_min_isr" in conditions(state)) == (expected > 2)
