"""Kafka's own topics: what stops while one of their partitions cannot be written."""

from __future__ import annotations

import pytest

from streaming.exporter.views.why import explained
from tests.asking import partition_object
from tests.builders import NOW_MS, Partition, a_state, partitions_frame
from twin.engine.shard_state import ShardState
from twin.kafka.kafka_topics import WHAT_STOPS
from twin.step import step

MIN_2 = {"min_insync_replicas": 2}
UPLOADS = "__remote_log_metadata"


def sentences(state: ShardState) -> list[str]:
    meanings = {risk.name: risk.sentence for risk in state.catalog.all_risks}
    return explained(partition_object(state), meanings, {"kafka": "Kafka"})["sentences"]


@pytest.mark.parametrize("topic", WHAT_STOPS)
def test_each_of_kafkas_own_topics_says_what_stops_without_it(topic: str):
    state = a_state(Partition(topic))
    assert partition_object(state)["what_stops"] == WHAT_STOPS[topic]
    would = f"If it had no leader or refused writes, this would stop: {WHAT_STOPS[topic]}."
    assert would in sentences(state)


@pytest.mark.parametrize(
    "part", [Partition(UPLOADS, isr=(1,)), Partition(UPLOADS, isr=(1,), leader=-1)]
)
def test_one_that_refuses_writes_or_is_offline_says_what_stops_now(part: Partition):
    state = a_state(part, **MIN_2)
    assert f"This stops now: {WHAT_STOPS[UPLOADS]}." in sentences(state)


def test_the_event_of_the_risk_says_it():
    before = a_state(Partition(UPLOADS), **MIN_2)
    frames = [partitions_frame([Partition(UPLOADS, isr=(1,))], NOW_MS + 5_000)]
    _, changes = step(before, frames, NOW_MS + 5_000)
    texts = {each.detail: each.text for each in changes if each.kind == "risk_opened"}
    assert texts["under_min_isr"].endswith(f"is refused: {WHAT_STOPS[UPLOADS]}")
    assert WHAT_STOPS[UPLOADS] not in texts["no_clean_successor"]


def test_nothing_is_said_of_other_topics():
    state = a_state(Partition("orders", isr=(1,)), **MIN_2)
    assert partition_object(state)["what_stops"] is None
    assert not any("stop" in sentence for sentence in sentences(state))
