"""What a broker copies when it comes back, against what the twin said before it went."""

from __future__ import annotations

import time
from typing import Final

import numpy as np
import pytest
from kafka import TopicPartition

from streaming.lab.local_cluster import LocalCluster
from tests.cluster.broker_client import EARLIEST_LOCAL, LATEST, BrokerClient, await_in_sync
from tests.cluster.topics import TIERED, steadily_written
from tests.cluster.watching import keys, watching
from tests.waiting import until
from twin.engine.shard_state import ShardState
from twin.questions.recovery import Recovery, recovery

pytestmark = [pytest.mark.cluster, pytest.mark.alone, pytest.mark.losses]

LEADER: Final = 1
AWAY: Final = 2
PLAIN, SHORT = "comes-back", "comes-back-short"
KEPT_BYTES: Final = 1 << 20
CONFIGS: Final = {
    PLAIN: {},
    # Ten seconds of records: the leader no longer has those of when the broker went.
    SHORT: TIERED | {"internal.segment.bytes": "102400", "local.retention.bytes": str(KEPT_BYTES)},
}
RECORD_BYTES: Final = 1_000
RECORDS_A_TICK: Final = 10
AWAY_S: Final = 30
LOOKS: Final = 10
WITHIN: Final = 0.2


def of_topic(state: ShardState, topic: str, away_s: float) -> Recovery:
    return recovery(state.take(np.array([keys(state).index((topic, 0))])), AWAY, away_s)


def test_a_broker_that_comes_back_copies_what_the_twin_said(whole: LocalCluster) -> None:
    client = BrokerClient(whole)
    records = {TopicPartition(topic, 0): RECORDS_A_TICK for topic in CONFIGS}
    for topic, configs in CONFIGS.items():
        client.create(topic, [[LEADER, AWAY]], configs | {"min.insync.replicas": "1"})
    await_in_sync(whole)  # every broker knows the topics
    with (
        steadily_written(whole.bootstrap, records, RECORD_BYTES),
        watching(whole.bootstrap) as watch,
    ):

        def retention_began() -> bool:
            return client.offset(LEADER, SHORT, 0, EARLIEST_LOCAL) > 0

        until(retention_began, 60)
        for _ in range(LOOKS):
            time.sleep(1)
            before = watch.look()
        whole.kill(AWAY)
        ends = {topic: client.offset(LEADER, topic, 0, LATEST) for topic in CONFIGS}
        killed_s = time.monotonic()
        time.sleep(AWAY_S)
        whole.start([AWAY])
        away_s = time.monotonic() - killed_s
        written = {topic: client.offset(LEADER, topic, 0, LATEST) - ends[topic] for topic in ends}
        kept = client.offset(LEADER, SHORT, 0, EARLIEST_LOCAL)
        await_in_sync(whole)

    plain, short = (of_topic(before, topic, away_s) for topic in (PLAIN, SHORT))
    print(f"away {away_s:.0f} s, wrote {written}, said {plain}, {short}")
    assert (plain.restarted, plain.unknown, short.restarted, short.unknown) == (0, 0, 1, 0)
    assert plain.from_leader_bytes == pytest.approx(written[PLAIN] * RECORD_BYTES, rel=WITHIN)
    # It starts anew: with the local log that the leader keeps, and no older records.
    assert short.from_leader_bytes == pytest.approx(KEPT_BYTES, rel=WITHIN)
    assert short.remote_only_bytes > 0
    assert client.offset(AWAY, SHORT, 0, EARLIEST_LOCAL) >= kept - RECORDS_A_TICK > ends[SHORT]
