"""A conversation of an operator's agent: three questions, three calls."""

from __future__ import annotations

from tests.builders import Partition, a_state
from tests.exporter.agents.asking import an_exporter, called, text_of
from tests.exporter.test_exporter import with_events
from tests.twin.test_gate import quorum


def test_may_i_restart_broker_2_why_not_and_what_would_help():
    store = with_events(
        a_state(
            Partition("orders", isr=(1, 2)),
            Partition("payments"),
            brokers=(1, 2, 3),
            min_insync_replicas=2,
        ).with_tables(quorum(0, 0, 0))
    )
    with an_exporter(store) as url:
        may, why, help_ = called(
            url,
            ("may_restart", {"broker": 2}),
            ("why", {"topic": "orders", "partition": 0}),
            ("plan_roll", {}),
        )
    # May I restart broker 2?
    assert may.structured_content["verdict"] == "unsafe"
    reasons = {each["reason"]: each["names"] for each in may.structured_content["reasons"]}
    assert reasons["under_min_isr"] == ["orders-0"]
    assert "broker 2: unsafe to restart" in text_of(may)
    # Why not?
    assert (
        "2 of 3 replicas in the ISR: 1, 2; out of it: 3. acks=all needs 2 (min.insync.replicas)."
    ) in text_of(why)
    # What would help? Broker 3 is out of the ISR: it may go at once, the others may not.
    assert [each["brokers"] for each in help_.structured_content["batches"]] == [[3]]
    assert [each["broker"] for each in help_.structured_content["left_out"]] == [1, 2]
    assert "\n1. broker 3 in rack az-c: " in text_of(help_)
    assert "not now: broker 2, unsafe to restart" in text_of(help_)
