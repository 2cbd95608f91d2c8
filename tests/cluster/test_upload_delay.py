"""Uploads of real brokers that wait on purpose (KIP-1241), beside uploads that do not."""

from __future__ import annotations

import pytest

from streaming.lab.local_cluster import LocalCluster
from tests.cluster.broker_client import LATEST_TIERED, BrokerClient
from tests.cluster.topics import produce
from tests.cluster.watching import keys, watching
from tests.reading import conditions
from tests.waiting import until
from twin.engine.shard_state import ShardState
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.bootstrap import BootstrapOff, BootstrapOn, saved_share
from twin.rules.tiering.upload import NEARLY, UploadLag

pytestmark = pytest.mark.cluster

MIB = 1 << 20
RECORDS = 6_300
"""A little more than six segments of 1 MiB."""

TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": str(MIB),
    "local.retention.bytes": str(2 * MIB),
    "file.delete.delay.ms": "100",
}
WAITS = {"remote.copy.lag.ms": "-1", "remote.copy.lag.bytes": "-1"}
"""Each segment waits until local retention wants it deleted."""


def late(state: ShardState) -> list[bool]:
    """Partitions whose uploads the risk calls late."""
    rows = range(len(state[UploadLag].upload_lag_records))
    return ["upload_lag_vs_local_retention" in conditions(state, row) for row in rows]


def test_an_upload_that_waits_on_purpose_is_not_late_and_saves_a_newcomer_less(
    cluster: LocalCluster,
) -> None:
    client = BrokerClient(cluster)
    topics = {"upload-at-once": {}, "upload-waits": WAITS}
    for topic, delay in topics.items():
        client.create(topic, [[1, 2]], TIERED | delay)
        produce(cluster, topic, RECORDS)
    # Five or six segments are closed; of the topic that waits, those with 2 MiB after them go.
    tiered = {}
    for topic, least in zip(topics, (5_000, 2_500), strict=True):
        until(lambda t=topic, n=least: client.offset(1, t, 0, LATEST_TIERED) >= n, 60, topic)
        tiered[topic] = client.offset(1, topic, 0, LATEST_TIERED)
    assert tiered["upload-waits"] <= tiered["upload-at-once"] - 1_000, "at least a segment waits"

    with watching(cluster.bootstrap) as watch:
        watch.look()

        def state_with_lag() -> ShardState | None:
            """Size and offsets of a log are asked one after the other: it may shrink between."""
            state = watch.look()
            lag = state[UploadLag].upload_lag_bytes[keys(state).index(("upload-waits", 0))]
            return state if lag >= NEARLY * 2 * MIB else None

        state = until(state_with_lag, 30, "without the delay this would not be at risk")
    assert state is not None
    at_once, waits = (keys(state).index((topic, 0)) for topic in topics)
    configs, lag = state[TopicConfigs], state[UploadLag].upload_lag_bytes
    assert configs.upload_delay_bytes[[at_once, waits]].tolist() == [0, 2 * MIB]
    assert lag[at_once] < NEARLY * 2 * MIB
    assert not late(state)[at_once]
    assert not late(state)[waits]
    saved = saved_share(state[BootstrapOn], state[BootstrapOff])
    assert 0 <= saved[waits] < saved[at_once]
