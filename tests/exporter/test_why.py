"""Why a partition is as it is: sentences of its JSON, with its numbers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from streaming.exporter.views.partitions import partition_objects
from streaming.exporter.views.why import explained
from tests.builders import (
    NOW_MS,
    Log,
    Partition,
    a_state,
    brokers_frame,
    fetches_frame,
    partitions_frame,
    replicas_frame,
)
from tests.exporter.test_exporter import MIB, a_client, a_full_store, with_events
from tests.twin import (
    test_kip501,
    test_open_transactions,
    test_records_lost,
    test_silent_successors,
)
from twin.builtin import CATALOG
from twin.engine.shard_state import ShardState
from twin.step import step


def sentences_about(*parts: Partition, of: str = "t", **config: Any) -> list[str]:
    client = a_client(with_events(a_state(*parts, brokers=(1, 2, 3), **config)))
    answer = client.get(f"/api/v1/partitions/{of}/0/why")
    assert answer.status_code == 200, answer.text
    sentences: list[str] = answer.json()["sentences"]
    return sentences


def test_a_partition_in_order_says_leader_isr_and_who_leads_next_and_why():
    leads, isr, kafka, *_ = sentences_about(Partition(), min_insync_replicas=2)
    assert leads == "Broker 1 leads t-0, in leader epoch 1."
    assert isr == (
        "3 of 3 replicas in the ISR: 1, 2, 3; out of it: none. "
        "acks=all needs 2 (min.insync.replicas)."
    )
    assert kafka == (
        "If broker 1 is lost, broker 2 leads by Kafka's election (in sync, not judged): it "
        "is the first in the assignment (1, 2, 3) that is in sync and online after the leader."
    )


def test_a_replica_that_cannot_lead_is_passed_over_and_named():
    [kafka] = [each for each in sentences_about(Partition(isr=(1, 3))) if "by Kafka's" in each]
    assert kafka.startswith("If broker 1 is lost, broker 3 leads by Kafka's election")
    assert kafka.endswith("after the leader; 2 cannot lead.")


def test_a_risk_is_said_with_its_meaning():
    assert (
        "Risk at_min_isr: a replica is missing; if one more leaves the ISR, acks=all is refused."
    ) in sentences_about(Partition(isr=(1, 3)), min_insync_replicas=2)


def test_a_partition_without_a_leader_is_offline_and_says_why_nobody_leads():
    sentences = sentences_about(Partition(leader=-1, isr=(), offline=(1, 2, 3)))
    assert sentences[0] == "t-0 has no leader: it is offline."
    assert (
        "At an election, nobody leads by Kafka's election: no other replica is in sync and online, "
        "and unclean elections are off."
    ) in sentences


def test_an_election_that_prefers_warm_replicas_differs_and_says_so():
    cold = Log(local_start=90, size_bytes=10)
    parts = Partition(logs={2: cold}, log=Log(size_bytes=2 * MIB))
    by_kip = [
        each
        for each in sentences_about(parts, eligible_local_log_bytes=MIB)
        if "by KIP-1303's" in each
    ]
    assert by_kip == [
        "If broker 1 is lost, broker 3 leads by KIP-1303's election (in sync, warm): this "
        "rule tries the replicas in another order."
    ]


def test_what_was_found_is_told():
    client = a_client(a_full_store())

    def of(topic: str) -> str:
        return "\n".join(client.get(f"/api/v1/partitions/{topic}/0/why").json()["sentences"])

    assert (
        "Broker 3 catches up since 2027-01-15T07:59:55.000Z and has 0.6 of it; 10.0 s are left."
        in of("moves")
    )
    assert "and does not move: stuck idle." in of("idle")
    assert "An unclean election of broker 3 would lose 50 records." in of("idle")
    assert (
        "left the ISR at 2027-01-15T08:00:00.000Z: nothing that the twin observes explains it."
        in of("moved")
    )
    assert "KIP-501 would not have kept it either." in of("moved")
    assert "Consumers sent to broker 2 read offsets 0 to before 90 from remote storage" in of(
        "late"
    )
    assert "replay (90 records behind, reads from disk)" in of("late")


def test_every_number_is_in_the_json_of_the_partition():
    client = a_client(a_full_store())
    for partition in client.get("/api/v1/partitions").json()["partitions"]:
        path = f"/api/v1/partitions/{partition['topic']}/{partition['partition']}"
        known = numbers_of(client.get(path).json())
        answer = client.get(f"{path}/why").json()
        for sentence in answer["sentences"]:
            bare = re.sub(r"KIP-\d+|2027-[\dT:.-]+Z", "", sentence)
            bare = bare.replace(f"{answer['topic']}-", "")
            said = {float(each) for each in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", bare)}
            assert said <= known, sentence


def numbers_of(value: Any) -> set[float]:
    """The numbers in the data, and the sizes of its lists and of the ISR."""
    if isinstance(value, dict):
        return {number for each in value.values() for number in numbers_of(each)}
    if isinstance(value, list):
        marked = sum(isinstance(each, dict) and bool(each.get("in_isr")) for each in value)
        return {len(value), marked, *(n for each in value for n in numbers_of(each))}
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return {float(value)} if is_number else set()


def test_a_partition_that_is_not_known_has_no_answer():
    client = a_client(a_full_store())
    answer = client.get("/api/v1/partitions/nowhere/0/why")
    assert (answer.status_code, answer.json()) == (404, {"error": "nowhere-0 is not known"})


def of_state(state: ShardState) -> str:
    [partition] = partition_objects(state, np.array([0]), state.observed_at_ms)
    meanings = {risk.name: risk.sentence for risk in CATALOG.risks}
    return "\n".join(explained(partition, meanings, CATALOG.election_rules)["sentences"])


def test_lost_records_are_told_with_their_offsets_and_the_cause():
    lacks = test_records_lost.part(2, (2,), 70)
    state, _ = test_records_lost.after(test_records_lost.led_by_1(), lacks, NOW_MS + 1_000, 70)
    assert (
        "Records lost: broker 2 leads without offsets 70 to before 100, since it was not in sync. "
        "Whether they were acknowledged is unknown. These are the least."
    ) in of_state(state)
    assert (
        "Unclean election: broker 2 was elected from outside the ISR and the ELR, after leader 1. "
        "Records from offset 70 on may be lost, to before 100 by estimate."
    ) in of_state(state)


def test_an_open_transaction_is_told_with_what_it_holds_back():
    stable_at = test_open_transactions.stable_at
    state = test_open_transactions.cycle(a_state(stable_at(100)), stable_at(60))
    state = test_open_transactions.cycle(state, stable_at(60), test_open_transactions.LONG_MS)
    assert (
        "An open transaction holds back 40 records from offset 60: producer id unknown, "
        "transactional id unknown."
    ) in of_state(state)


def test_a_next_leader_that_does_not_answer_is_told_with_who_leads_then():
    state = test_silent_successors.after_silence(Partition(), (2,), 60_000)
    assert (
        "That broker does not answer. Kafka may elect it until it is fenced; then broker 3 leads."
    ) in of_state(state)


def test_a_slow_leader_is_told_with_whom_it_would_hand_over_to_and_back():
    part, took = test_kip501.AHEAD, test_kip501.LAG_MAX_MS + 1
    state = test_kip501.fetched(part, *test_kip501.slow(took), brokers=(1, 2, 3))
    at_ms = NOW_MS + 2_000
    frames = [fetches_frame(test_kip501.slow(took, at_ms - 500), at_ms),
              brokers_frame((1, 2, 3), at_ms, slow=(2,)), partitions_frame([part], at_ms),
              replicas_frame([part], at_ms)]  # fmt: skip
    told_of = of_state(step(state, frames, at_ms)[0])
    assert "by KIP-501 it would hand over to broker 2, which is slow itself." in told_of
    assert (
        f"By KIP-501 leadership would have moved at most 1 time since {at_ms} ms, back and forth "
        "with broker 2."
    ) in told_of
