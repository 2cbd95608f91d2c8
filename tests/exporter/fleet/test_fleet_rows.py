"""A row a cluster, worst first, whose sentence is the worst true thing about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streaming.bus.freshness import BusState
from streaming.exporter.fleet.fleet_rows import FleetRow, FleetRows
from streaming.exporter.metrics.exposition import Exposition
from streaming.exporter.view_source import ViewSource
from streaming.exporter.views import cluster as cluster_views
from tests.console.fleet import (
    MOMENT_MS,
    SMALL,
    ShownFleet,
    Simulated,
    behind,
    filling,
    lost,
    many,
    silent,
    simulated,
    three,
    view_of,
)
from twin.builtin import CATALOG


def row_of(state: Simulated | None, later_ms: int = 1_000) -> FleetRow:
    shown = ShownFleet(ahead_ms={"c": later_ms})
    shown.show({"c": state}, {"c": {"env": "prod"}})
    [row] = shown.clusters.fleet()["clusters"]
    return row


CASES = {
    "a cluster of which nothing was read": (
        lambda: None, "unknown",
        "No snapshot has been read yet, and nothing was observed: is the collector running, and "
        "does the bus take its writes?",
    ),
    "a cluster of which no broker answers": (
        lambda: simulated(silent(1, 2, 3, 4, 5)), "critical",
        "No broker has answered since 2027-01-15 08:25:00 UTC: what is shown is how the cluster "
        "was then.",
    ),
    "partitions without a leader": (
        lambda: simulated(lost(1, 2, 3)), "critical", "80 partitions have no leader.",
    ),
    "a risk that pages": (
        lambda: simulated(lost(4, 5)), "critical",
        "166 partitions: fewer replicas are in sync than min.insync.replicas: acks=all is "
        "refused.",
    ),
    "remote storage away": (
        lambda: filling(12, uploaded_until_s=600), "critical",
        "Remote storage takes no uploads since 2027-01-15 08:10:00 UTC. Broker 1 is full in "
        "2 h 50 min.",
    ),
    "a disk that is full in hours": (
        lambda: filling(12), "critical",
        "A disk of broker 1 is full at 2027-01-15 11:20:00 UTC at the earliest; 1 other broker "
        "has one too.",
    ),
    "a broker that cannot be lost": (
        lambda: simulated(lost(4)), "warning",
        "Losing broker 3 would leave 183 partitions under min ISR; 3 other brokers cannot be "
        "lost either.",
    ),
    "a disk that is full in a day": (
        lambda: filling(40), "warning",
        "A disk of broker 1 is full at 2027-01-15 19:06:40 UTC at the earliest; 1 other broker "
        "has one too.",
    ),
    "a risk that warns": (
        lambda: simulated(shape=replace(SMALL, eligible_ms=3_600_000)), "warning",
        "430 partitions: the leader is cold: it holds too little local log, and reads older "
        "records from remote storage.",
    ),
    "a rack that cannot be lost": (
        lambda: simulated(shape=replace(SMALL, racks=2, replication=2, min_isr=1)), "info",
        "You can lose any one broker, and not rack az-a: 99 partitions would be offline.",
    ),
    "nothing": (simulated, "ok", "You can lose any one broker."),
}  # fmt: skip


@pytest.mark.parametrize(("state", "severity", "sentence"), CASES.values(), ids=CASES)
def test_the_sentence_is_the_worst_true_thing(state, severity: str, sentence: str):
    row = row_of(state())
    assert (row["severity"], row["sentence"]) == (severity, sentence)


def test_what_is_not_fresh_says_so_and_shows_what_was_known_last():
    fresh, old = row_of(simulated(lost(1, 2, 3))), row_of(simulated(lost(1, 2, 3)), 200_000)
    assert old["severity"] == "unknown"
    assert old["sentence"] == (
        "The newest observation is 200 s old: are the collector and the query running?"
    )
    assert (old["up"], old["age_ms"]) == (False, 200_000)
    assert old["risks"] == fresh["risks"]
    assert old["loss"] == fresh["loss"]


def test_what_is_not_known_is_null_and_never_zero():
    row = row_of(None)
    assert {name for name, value in row.items() if value is None} == {
        "observed_at_ms", "age_ms", "risks", "can_lose", "loss", "rack_loss", "disk_full_at_ms",
        "tier_full_at_ms", "track", "brokers", "partitions", "kafka_version",
    }  # fmt: skip
    assert (row["disk_forecast"], row["tier_forecast"]) == ("unknown", "unknown")


def test_without_the_clusters_own_shard_nothing_is_said_to_be_well():
    source = ShownFleet().source_of(replace(view_of("c", simulated()), cluster=None))
    [row] = FleetRows().fleet([source])["clusters"]
    assert (row["severity"], row["sentence"]) == (
        "unknown", "Of disks, controllers and remote storage nothing is known at present.",
    )  # fmt: skip


def test_a_row_has_the_numbers_of_the_clusters_own_pages():
    state = simulated(lost(1, 2, 3))
    row, view = row_of(state), view_of("c", state)
    summary = cluster_views.summary(CATALOG, "c", view, MOMENT_MS)
    assert row["partitions"] == summary["partitions"]
    assert row["brokers"] == 5
    assert row["kafka_version"] == "4.1"
    assert row["loss"] is not None
    assert row["loss"]["cannot_be_lost"] == len(summary["loss"]["cannot_be_lost"])
    assert row["can_lose"] is False
    assert row["track"] == {"right": 92, "wrong": 0, "not_judged": 171}
    assert row["risks"] is not None
    opened = {name for name, risk in summary["risks"].items() if risk["partitions"]}
    opened |= {name for name, risk in summary["cluster_risks"].items() if risk["open"]}
    assert set().union(*row["risks"].values()) == opened


def test_the_worst_cluster_comes_first_and_equals_by_name():
    rows = many(60).clusters.fleet()["clusters"]
    order = ["unknown", "critical", "warning", "info", "ok"]
    assert [each["severity"] for each in rows] == sorted(
        (each["severity"] for each in rows), key=order.index
    )
    quiet = [each["cluster"] for each in rows if each["severity"] == "ok"]
    assert quiet == sorted(quiet)


def test_labels_are_listed_with_their_values():
    assert three().clusters.fleet()["labels"] == {"env": ["prod", "test"], "region": ["eu", "us"]}


def test_a_view_is_judged_once_whatever_else_is_learned_of_the_bus():
    """The totals of a view are computed by the first who reads them: a row that is kept reads
    none."""
    state = simulated()
    views = [view_of("c", state)]
    views.append(replace(views[0], bus=BusState(observations_arrive=True)))
    newest = 0
    source = ViewSource(
        CATALOG, "c", lambda: Exposition(views[newest]), lambda: MOMENT_MS + 1_000,
        newest=lambda: views[newest],
    )  # fmt: skip
    rows = FleetRows()
    [first] = rows.fleet([source])["clusters"]
    newest = 1
    [same] = rows.fleet([source])["clusters"]
    assert same["risks"] is first["risks"]
    views.append(view_of("c", simulated(lost(1, 2, 3))))
    newest = 2
    [other] = rows.fleet([source])["clusters"]
    assert other["sentence"] == "80 partitions have no leader."


def test_clusters_with_the_same_state_stay_apart():
    shown = ShownFleet()
    state = simulated(lost(1, 2, 3))
    shown.show({"a": state, "b": simulated(behind), "c": state}, {})
    rows = {each["cluster"]: each["sentence"] for each in shown.clusters.fleet()["clusters"]}
    assert rows["a"] == rows["c"] != rows["b"]


def test_a_cluster_that_cannot_be_judged_takes_no_row_from_the_others():
    shown = ShownFleet()
    well, other = (shown.source_of(view_of(name, simulated()), name) for name in "ab")
    broken = replace(other, own_topics=None)  # type: ignore[arg-type]
    rows = {each["cluster"]: each for each in FleetRows().fleet([well, broken])["clusters"]}
    assert rows["a"]["severity"] == "ok"
    assert rows["b"]["severity"] == "unknown"
    assert rows["b"]["sentence"].startswith("This cluster cannot be judged: TypeError: ")
