"""On a cluster that nobody tuned, what is at risk is what the test put there."""

from __future__ import annotations

from collections import Counter

import pytest

from docs.pages import day_one as pages
from tests.strangers.__main__ import as_measured
from tests.strangers.day_one import Day, day_one
from tests.strangers.kinds import KINDS, kind_of

pytestmark = [pytest.mark.cluster, pytest.mark.incidents, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Day:
    """Five minutes, a plan, and a restart of each broker; the table is printed."""
    seen = day_one(tmp_path_factory.mktemp("strangers"), print)
    print("\n".join(pages.table(as_measured(seen))))
    print(f"while brokers were restarted: {dict(seen.during_restarts)}")
    return seen


def by_kind(risks: frozenset[tuple[tuple[str, int], str]]) -> Counter[tuple[str, str]]:
    return Counter((kind_of(topic), risk) for (topic, _), risk in risks)


def test_every_open_risk_is_one_that_was_put_there(day: Day) -> None:
    assert by_kind(day.risks - day.planted) == {}


def test_every_risk_that_was_put_there_is_open(day: Day) -> None:
    assert by_kind(day.planted - day.risks) == {}
    assert {risk for kind in KINDS for risk in kind.risks} == {risk for _, risk in day.planted}


def test_every_kind_of_topic_is_known_to_the_twin(day: Day) -> None:
    assert {kind.name for kind in KINDS} < set(day.partitions)


def test_groups_are_listed_and_deleted_ones_are_not(day: Day) -> None:
    assert day.groups == [
        "ahead-of-the-log", "behind-and-gone", "empty", "far-behind", "live", "too-late",
    ]  # fmt: skip


def test_every_restart_is_safe_and_the_roll_goes_through(day: Day) -> None:
    assert day.refused == {}
    assert day.restarted == [1, 2, 3, 4, 5]


def test_a_roll_by_the_gate_loses_no_record(day: Day) -> None:
    assert day.written > 1_000
    assert day.read > 1_000
    assert (day.errors, day.lost) == ([], {})


def test_each_risk_of_the_roll_is_of_a_broker_that_was_out(day: Day) -> None:
    assert day.unexplained == []
    opened = {risk for _, risk in day.during_restarts}
    assert {"at_min_isr", "under_min_isr", "partition_offline"} <= opened


def test_the_risks_of_the_roll_close(day: Day) -> None:
    assert by_kind(day.after_restarts - day.planted) == {}


def test_the_table_of_the_docs_is_that_of_this_cluster(day: Day) -> None:
    assert pages.load() == as_measured(day)
