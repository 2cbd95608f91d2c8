"""``whatif min-isr``: partitions under another min.insync.replicas, now and after a loss."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from streaming.cli.main import main
from streaming.cli.whatif import print_answer
from streaming.exporter.metrics.exposition import Exposition
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import application
from tests.asking import a_view, answered
from tests.builders import NOW_MS, Partition, a_state, empty
from tests.examples import examples
from tests.exporter.serving import served
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.engine.shard_state import ShardState
from twin.questions import whatif
from twin.rules.partitions.topic_configs import LeaderMinIsr
from twin.rules.replication.isr import IsrSizes
from twin.step import step
from twin.tables.state import Brokers, Partitions
from twin.totals import shard_totals

STATE = a_state(
    Partition("orders"),
    Partition("orders-eu", isr=(1, 2)),
    Partition("audit", replicas=(1,)),
    brokers=(1, 2, 3, 4),
)


def test_partitions_are_counted_now_and_after_the_loss_of_each_broker():
    answer = answered("min-isr", STATE, min_isr=2)
    assert answer.data == {
        "min_isr": 2, "partitions": 3, "not_described": 0, "now": 0,
        "more_after_loss": {"1": 2, "2": 1, "3": 0, "4": 0},
        "elr_cleared": 0, "elr_without_successor": 0, "elr_partitions": [],
    }  # fmt: skip
    assert answer.lines == ["With min.insync.replicas=2, 0 of 3 partitions are under min ISR now."]
    assert answer.rows == [(1, 2, 2), (2, 1, 1), (3, 0, 0), (4, 0, 0)]


def test_a_partition_that_is_under_it_already_stays_under_it():
    answer = answered("min-isr", STATE, min_isr=3, topic="orders.*")
    assert (answer.data["partitions"], answer.data["now"]) == (2, 1)
    assert answer.rows == [(1, 2, 1), (2, 2, 1), (3, 2, 1), (4, 1, 0)]


def test_no_partition_needs_more_replicas_than_it_has():
    assert answered("min-isr", STATE, min_isr=10, topic="audit").data["now"] == 0
    assert answered("min-isr", STATE, min_isr=10, topic="orders").data["now"] == 0


def test_a_partition_that_nobody_leads_then_is_under_it():
    data = answered("min-isr", STATE, min_isr=1).data
    assert (data["now"], data["more_after_loss"]) == (0, {"1": 1, "2": 0, "3": 0, "4": 0})


def test_a_pattern_is_of_whole_names_and_nothing_may_match():
    assert answered("min-isr", STATE, min_isr=2, topic="orders").data["partitions"] == 1
    assert answered("min-isr", STATE, min_isr=2, topic="rain").lines == ["No topic matches."]


def test_partitions_that_are_not_described_are_unknown():
    partitions = STATE[Partitions]
    at_ms = partitions.described_at_ms.copy()
    at_ms[0] = -1
    state = STATE.with_tables(replace(partitions, described_at_ms=at_ms))
    answer = answered("min-isr", state, min_isr=2)
    assert (answer.data["partitions"], answer.data["not_described"]) == (2, 1)
    assert answer.lines[0].endswith("; nothing is known of 1 more.")


@pytest.mark.parametrize("least", [1, 2, 3])
def test_with_the_number_that_is_configured_the_answer_is_what_is_there(least: int):
    parts = Partition("a", isr=(1,)), Partition("b", isr=(2, 3)), Partition("c", replicas=(2, 1))
    state = a_state(*parts, min_insync_replicas=least)
    data = answered("min-isr", state, min_isr=least).data
    assert data["now"] == shard_totals(state).value("kafka_twin_partitions_under_min_isr")
    for broker, more in data["more_after_loss"].items():
        loss = whatif.lose(state, [int(broker)])
        are_under = set(np.flatnonzero(state[IsrSizes].size < state[LeaderMinIsr].min_isr))
        assert more == len(set(loss.row[loss.under_min_isr]) - are_under)


@examples(100)
@given(
    seed=st.integers(0, 20), shards=st.integers(1, 5), least=st.integers(1, 4),
    topic=st.sampled_from([".*", ".*0", "none"]), data=st.data(),
)  # fmt: skip
def test_the_answer_is_the_same_for_any_number_of_shards(seed, shards, least, topic, data):
    whole = a_shard(seed)
    of = np.array(data.draw(st.lists(st.integers(0, shards - 1), min_size=3, max_size=3)))
    rows = np.arange(whole.partitions)
    parts = [whole.take(rows[of[rows % 3] == shard]) for shard in range(shards)]
    one = answered("min-isr", whole, min_isr=least, topic=topic)
    assert answered("min-isr", *parts, min_isr=least, topic=topic) == one


def a_shard(seed: int) -> ShardState:
    state = empty("sim")
    for frames in SimulatedShard(Shape(topics=3, partitions=12), seed).run(4, NOW_MS):
        state, _ = step(state, frames, frames[0].header.observed_at_ms)
    return state


def test_a_broker_that_one_shard_does_not_know_yet_is_counted_by_the_others():
    three = Brokers.from_values(column[:3] for column in STATE[Brokers].values())
    late = a_state(Partition("late", replicas=(1, 2))).with_tables(three)
    counts = answered("min-isr", STATE, late, min_isr=2).data["more_after_loss"]
    assert counts == {"1": 3, "2": 2, "3": 0, "4": 0}


ELIGIBLE = Partition("eligible", isr=(1,), elr=(3,))
WITH_ELR = {"elr_enabled": 1, "min_insync_replicas": 2}


@pytest.mark.parametrize("least", [1, 3])
def test_a_change_up_or_down_clears_the_elr_and_leaves_no_clean_successor(least: int):
    answer = answered("min-isr", a_state(ELIGIBLE, **WITH_ELR), min_isr=least)
    assert (answer.data["elr_cleared"], answer.data["elr_without_successor"]) == (1, 1)
    assert answer.data["elr_partitions"] == [
        {"topic": "eligible", "partition": 0, "elr": [3], "has_successor": False}
    ]
    assert answer.lines[1] == (
        "The change clears the ELR of 1 partition (KIP-966: so does each change of it, up or "
        "down); 1 has no clean successor then: eligible-0 (ELR 3). Bring these brokers back into "
        "the ISR first."
    )
    # Nobody leads it without broker 1 then, as after the loss of its whole ISR.
    assert answer.data["more_after_loss"]["1"] == (1 if least == 1 else 0)


def test_the_number_that_is_set_already_clears_nothing():
    data = answered("min-isr", a_state(ELIGIBLE, **WITH_ELR), min_isr=2).data
    assert (data["elr_cleared"], data["elr_partitions"]) == (0, [])


def test_the_elr_of_another_topic_stays():
    state = a_state(ELIGIBLE, Partition("other"), **WITH_ELR)
    assert answered("min-isr", state, min_isr=1, topic="other").data["elr_cleared"] == 0


def test_a_partition_with_another_in_sync_loses_its_elr_and_keeps_a_successor():
    state = a_state(
        Partition(replicas=(1, 2, 3, 4), isr=(1, 2), elr=(3,)), elr_enabled=1, min_insync_replicas=3
    )
    answer = answered("min-isr", state, min_isr=2)
    assert (answer.data["elr_cleared"], answer.data["elr_without_successor"]) == (1, 0)
    assert answer.lines[1].endswith("0 have no clean successor then.")


def test_a_partition_without_a_leader_that_waits_for_a_member_of_its_elr_is_named():
    state = a_state(replace(ELIGIBLE, isr=(), leader=-1, offline=(3,)), fenced=(3,), **WITH_ELR)
    assert answered("min-isr", state, min_isr=1).data["elr_without_successor"] == 1


def test_the_worst_are_listed_first_over_all_shards():
    safe = Partition("a", replicas=(1, 2, 3, 4), isr=(1, 2), elr=(3,))
    config = {"elr_enabled": 1, "min_insync_replicas": 3}
    one, other = a_state(safe, **config), a_state(ELIGIBLE, **config)
    data = answered("min-isr", one, other, min_isr=1).data
    assert [each["topic"] for each in data["elr_partitions"]] == ["eligible", "a"]


def test_an_exporter_gives_the_same_answer():
    exposition = Exposition(a_view(STATE))
    source = ViewSource(CATALOG, "c", lambda: exposition, lambda: NOW_MS)
    with served(application(source)) as url:
        done = CliRunner().invoke(
            main, ["whatif", "min-isr", "--min-isr", "2", "--topic", "orders.*", "--url", url]
        )
    out = io.StringIO()
    print_answer(answered("min-isr", STATE, min_isr=2, topic="orders.*"), False, out)
    assert (done.exit_code, done.stdout, done.stderr) == (0, out.getvalue(), "")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "Missing option '--min-isr'"),
        (["--min-isr", "0"], "Invalid value for '--min-isr': at least 1"),
        (["--min-isr", "2", "--topic", "("], "'(' is not a regular expression"),
    ],
)
def test_what_cannot_be_asked_is_one_clear_line(arguments: list[str], why: str):
    done = CliRunner().invoke(main, ["whatif", "min-isr", *arguments])
    assert done.exit_code == 2
    assert why in done.output
