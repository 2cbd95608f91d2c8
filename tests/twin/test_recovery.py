"""What a broker copies when it comes back, counted by hand and on a state that does come back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streaming.questions.answer import WhatIfError
from tests.asking import answered
from tests.builders import NOW_MS, Log, Partition, a_state
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.questions.recovery import Recovery, recovery
from twin.tables.enums import PendingUpload

BYTES = 10  # of a record
RATE = 2.0  # records a second
FOR_EVER = {"retention_ms": -1, "retention_bytes": -1}


def log(end: int, local_start: int = 0, start: int = 0) -> Log:
    return Log(end, local_start, start, size_bytes=(end - local_start) * BYTES)


def written(*parts: tuple[Partition, int], **configs: object) -> ShardState:
    """The state of partitions with so many records of which RATE were written each second."""
    state = None
    for second in (0, 10):
        given = [
            Partition(
                part.topic, part.number, part.replicas, part.isr, leader=part.leader,
                log=log(end + int(second * RATE), part.log.local_start),
                logs=part.logs,
            )
            for part, end in parts
        ]  # fmt: skip
        state = a_state(*given, at_ms=NOW_MS + second * 1_000, since=state, **configs)  # type: ignore[arg-type]
    assert state is not None
    return state


def test_a_follower_copies_what_is_written_meanwhile_from_its_leader():
    found = recovery(written((Partition(), 1_000), **FOR_EVER), 2, 60)
    assert found == Recovery(
        partitions=1, unknown=0, offline=0, restarted=0, preferred=0,
        from_leader_bytes=60 * RATE * BYTES, remote_only_bytes=0.0,
        written_bytes_per_s=RATE * BYTES, sent=((1, 60 * RATE * BYTES),),
        copied=((-1, 60 * RATE * BYTES),), freed=((-1, 0.0),), unclear=((-1, 0),),
    )  # fmt: skip


def test_a_leader_copies_from_its_successor_and_leads_again():
    found = recovery(written((Partition(), 1_000), **FOR_EVER), 1, 60)
    assert (found.preferred, found.sent) == (1, ((2, 60 * RATE * BYTES),))


def test_a_replica_that_lags_already_copies_that_as_well():
    lags = Partition(isr=(1, 3), logs={2: log(700)})
    found = recovery(written((lags, 1_000), **FOR_EVER), 2, 60)
    assert found.from_leader_bytes == (1_020 - 700 + 60 * RATE) * BYTES


@pytest.mark.parametrize(
    ("away_s", "restarted", "copied", "remote"),
    [
        (40, 0, 40 * RATE, 0),  # the leader keeps 50 s
        (60, 1, 50 * RATE, 10 * RATE),
        (600, 1, 50 * RATE, 550 * RATE),
    ],
)
def test_a_tiered_follower_starts_anew_where_the_leader_no_longer_has_the_records(
    away_s, restarted, copied, remote
):
    state = written(
        (Partition(log=log(1_000, 900)), 1_000),
        remote_storage=1,
        local_retention_ms=50_000,
        local_retention_bytes=-1,
    )
    found = recovery(state, 2, away_s)
    assert found.restarted == restarted
    assert found.from_leader_bytes == pytest.approx(copied * BYTES)
    assert found.remote_only_bytes == pytest.approx(remote * BYTES)


def test_without_tiering_what_retention_deletes_is_in_no_remote_storage():
    found = recovery(written((Partition(), 1_000), retention_ms=50_000, retention_bytes=-1), 2, 600)
    assert (found.restarted, found.remote_only_bytes) == (1, 0.0)
    assert found.from_leader_bytes == pytest.approx(50 * RATE * BYTES)


def test_retention_by_bytes_counts_as_well():
    found = recovery(written((Partition(), 1_000), retention_ms=-1, retention_bytes=700), 2, 600)
    assert (found.restarted, found.from_leader_bytes) == (1, pytest.approx(700))


def test_a_partition_of_one_replica_is_not_written_meanwhile():
    found = recovery(written((Partition(replicas=(2,)), 1_000), **FOR_EVER), 2, 60)
    assert (found.offline, found.from_leader_bytes, found.written_bytes_per_s) == (1, 0.0, 0.0)


def test_what_is_not_known_is_in_no_sum():
    grown, new = Partition(), Partition(number=1)
    state = written((grown, 1_000), **FOR_EVER)
    state = a_state(
        Partition(log=log(1_040)), Partition(number=1, log=log(500)), since=state,
        at_ms=NOW_MS + 20_000, **FOR_EVER,
    )  # fmt: skip
    assert new.number == 1
    found = recovery(state, 2, 60)
    assert (found.partitions, found.unknown) == (2, 1)
    assert found.from_leader_bytes == 60 * RATE * BYTES
    without = a_state(Partition(log=Log(size_bytes=UNKNOWN)))
    assert recovery(without, 2, 60).unknown == 1
    not_read = recovery(written((Partition(), 1_000), retention_ms=10**9), 2, 60)
    assert (not_read.unknown, not_read.from_leader_bytes) == (1, 0.0)


def test_shards_add_up():
    parts = [(Partition("t", n, replicas=(1 + n % 3, 2 + n % 3)), 100 * n + 100) for n in range(6)]
    state = written(*parts, **FOR_EVER)
    rows = np.arange(state.partitions)
    whole = answered("recovery", state, broker=2, away=60_000).data
    split = answered(
        "recovery", *(state.take(rows[n::2]) for n in range(2)), broker=2, away=60_000
    ).data
    assert split == whole


def test_the_answer_says_when_it_is_in_sync_or_that_it_never_is():
    state = written((Partition(), 1_000), **FOR_EVER)
    answer = answered("recovery", state, broker=1, away=600_000, rate=120)
    assert answer.data["in_sync_s"] == 120.0  # 12 000 bytes, of 120 a second less the 20 written
    assert answer.lines[:3] == [
        "Broker 1 comes back after 10 m and copies 11.72 KiB for 1 partition.",
        "At 120 B/s it is in sync 2 m after its return.",
        "1 leader then comes back to it: within 300 s by Kafka's default, if leaders are balanced "
        "by themselves.",
    ]
    assert answer.rows == [(2, "11.72 KiB")]
    assert answer.data["permanent"]["partitions"] == 1
    never = answered("recovery", state, broker=1, rate=20)
    assert never.data["in_sync_s"] is None
    assert "never in sync: 20 B/s are written" in never.lines[1]
    with pytest.raises(WhatIfError, match="there is no broker 9"):
        answered("recovery", state, broker=9)


def test_what_is_not_uploaded_stays_on_the_leaders_disk_for_a_broker_that_comes_back():
    """KAFKA-19952: with remote storage away the follower lacks nothing on its leader's disk."""
    limits = {"local_retention_ms": 10_000, "local_retention_bytes": -1}
    tiered = {"remote_storage": 1, "copies_disabled": 0} | FOR_EVER | limits

    def found(**uploads: int) -> Recovery:
        state = None
        for second in (0, 10):
            part = Partition(log=replace(log(1_000 + int(second * RATE)), **uploads))
            at_ms = NOW_MS + second * 1_000
            state = a_state(part, since=state, at_ms=at_ms, topics={"t": tiered})
        assert state is not None
        return recovery(state, 2, 60)

    assert found(last_tiered=1_015).restarted == 1
    never = found(reason=PendingUpload.KNOWN, pending_upload=0)
    assert (never.restarted, never.from_leader_bytes) == (0, 60 * RATE * BYTES)
