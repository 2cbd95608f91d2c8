"""The demo's screen shows what the API answers."""

import re
from typing import Any

from streaming.lab.screen import draw

LOST = {outcome: {"warm": 0, "cold": 0} for outcome in ("clean", "elr", "last_known", "unclean")}
LOST |= {"none": {"none": 0}}
KAFKA = LOST | {"clean": {"warm": 6, "cold": 1}, "elr": {"cold": 1, "not_judged": 2}}
KIP1303 = LOST | {"clean": {"warm": 7}, "elr": {"cold": 1, "not_judged": 2}}
BROKER = {
    "broker": 7,
    "rack": "az-a",
    "fenced": False,
    "answered": True,
    "leaders": 10,
    "loss_partitions": {"kafka": KAFKA, "kip1303": KIP1303},
    "loss_under_min_isr_partitions": 2,
}
PARTITION = {
    "topic": "ledger-of-a-long-name",
    "partition": 0,
    "leader": -1,
    "risks": ["leader_cold", "at_min_isr"],
    "next_leaders": {
        "kafka": {"outcome": "clean", "leader": 3, "coverage": "cold"},
        "kip1303": {"outcome": "clean", "leader": 2, "coverage": "not_judged"},
    },
}
SUMMARY = {
    "cluster": "demo",
    "age_seconds": 1.2,
    "up": True,
    "loss": {"sentence": "You can lose any broker but 7."},
    "partitions": 24,
    "at_risk": 1,
    "partitions_offline": 0,
    "partitions_under_min_isr": 0,
    "cold_replicas": 1,
    "partitions_leader_cold": 0,
    "predictions": {
        "loss": {"right": 1_200, "wrong": 0, "overtaken": 3, "unforeseen": 0},
        "balance": {"right": 4, "wrong": 1, "overtaken": 0, "unforeseen": 0},
    },
    "replicas": 72,
    "replicas_coverage_not_judged": 0,
}


def drawn(
    *partitions: dict[str, Any], total: int = 0, width: int | None = None, **counts: Any
) -> str:
    risky = {"total": total or len(partitions), "partitions": partitions}
    return draw(
        SUMMARY | counts, [BROKER], risky, "http://exporter", None, "home", "b:1", "twin", width
    )


def test_it_says_which_broker_can_be_lost():
    assert "  You can lose any broker but 7.\n" in drawn()


def test_a_broker_is_a_row_with_both_rules_where_they_differ():
    [row] = [line.split() for line in drawn().splitlines() if line.strip().startswith("7 ")]
    assert row == ["7", "az-a", "answers", "10", "7", "3", *"···", "2", "(1)", "2", "2"]


def test_a_partition_at_risk_is_a_row_that_is_not_cut_in_a_pipe():
    [row] = [line for line in drawn(PARTITION).splitlines() if "ledger" in line]
    assert "ledger-of-a-long-name-0" in row
    assert "nobody" in row
    assert "leader cold, at min isr" in row
    assert row.endswith("3 (in sync, cold); under KIP-1303 2 (in sync, not judged)")


def test_tables_are_no_wider_than_the_terminal():
    lines = drawn(PARTITION, width=100).splitlines()
    start = next(i for i, line in enumerate(lines) if "Partitions at risk" in line)
    assert max(map(len, lines[start : start + 5])) <= 100
    assert "…" not in "".join(lines)


def test_no_partition_at_risk_is_a_sentence_and_no_empty_table():
    text = drawn()
    assert "No partition is at risk." in text
    assert "next leader" not in text


def test_the_track_record_adds_up_all_causes():
    line = "1,208 leader changes: 1,204 as predicted, 1 predicted wrong, 3 overtaken, 0 unforeseen"
    assert line in drawn()


def test_replicas_that_left_an_isr_are_counted_by_what_kip501_would_have_done():
    text = drawn(isr_shrinks_preventable={"yes": 1, "no": 3, "unknown": 0})
    assert "left an ISR in the last 10 minutes: 4; KIP-501 would have kept 1, not 3, unknown 0" in (
        text
    )
    assert "ISR in" not in drawn(isr_shrinks_preventable={"yes": 0, "no": 0, "unknown": 0})
    assert "ISR in" not in drawn(), "KIP-501's rules are switched off"


def test_more_than_fit_are_counted():
    assert "and 29 more" in drawn(PARTITION, total=30)


def test_where_nothing_is_judged_it_says_how_to_set_a_threshold():
    text = drawn(replicas_coverage_not_judged=72)
    assert "[eligibility] local_log_ms" in text
    assert re.search(r"cold replicas +- +cold leaders +-", text)
    assert "[eligibility]" not in drawn(replicas_coverage_not_judged=71)
