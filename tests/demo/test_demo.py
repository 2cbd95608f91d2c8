"""The demo plays its incidents, and the alerts of a real Prometheus fire and resolve.

A run of its own, since it takes minutes in which the machine has little to do.
"""

from __future__ import annotations

import re

import pytest

from streaming.lab import processes
from tests.demo.playing import LIMITS, PLAYED, Played

pytestmark = [pytest.mark.incidents, *LIMITS]

ALERT_OF = {
    "failover": "KafkaTwinPartitionOffline",
    "cold-leader": "KafkaTwinLeaderCold",
    "warm-order": "KafkaTwinNextLeaderCold",
    "stuck-bootstrap": "KafkaTwinBootstrapStuck",
    "slow-leader": "KafkaTwinSlowLeader",
}


@pytest.mark.parametrize("script", PLAYED)
def test_every_incident_came_true(demo: Played, script: str):
    assert demo.prints(f"script {script} came true"), "\n".join(demo.printed[-20:])


@pytest.mark.parametrize("script", PLAYED)
def test_its_alert_fired(demo: Played, script: str):
    alert = ALERT_OF[script]
    assert "firing" in {states.get(alert) for states in demo.states}
    assert alert in demo.notified


def test_every_alert_was_resolved_and_the_demo_ended_by_itself(demo: Played):
    for alert in ALERT_OF.values():
        assert demo.prints(f"{alert} is resolved"), "\n".join(demo.printed[-20:])
    assert demo.code == 0
    assert not demo.prints("Traceback")


def test_what_kafka_did_is_what_was_predicted(demo: Played):
    [line] = [line for line in demo.printed if "elected as predicted in" in line]
    right, led = re.search(r"in (\d+) of (\d+) partitions", line).groups()
    assert right == led != "0"
    assert demo.prints("the twin says that its leader was too slow for healthy followers") or (
        demo.prints("the twin says that its leader stood still")
    )


def test_what_followers_fetch_is_known_of_every_partition(demo: Played):
    assert demo.without_fetches == []


def test_what_kip501_would_have_done_is_known(demo: Played):
    [line] = [line for line in demo.printed if "threw out" in line]
    known = r"KIP-501 would (not )?have kept it"
    if "its leader stood still" in line:  # on a busy machine; its fetches then prove nothing
        known += "|KIP-501 may have kept it"
    assert re.search(known, line), line


def test_the_tap_reads_everything_while_logs_are_rolled_and_brokers_are_lost(demo: Played):
    assert demo.rolled, "no request log was rolled"
    assert set(re.findall(r"invalid_lines=({.*?})", demo.tap)) == {"{}"}
    assert set(re.findall(r"skipped_bytes=(\d+)", demo.tap)) == {"0"}
    assert demo.tap.count(" running ") == 1, "it was not restarted"


def test_the_planned_order_saved_every_remote_fetch(demo: Played):
    """The demo's partition with a cold replica: 1 MB or more that is not on its disk."""
    counted = [
        int(match[1])
        for line in demo.printed
        if (match := re.search(r"(\d+) remote fetches$", line))
    ]
    before, after = counted
    assert before >= 10
    assert after == 0


def test_every_panel_has_an_answer_in_the_demos_prometheus(demo: Played):
    assert demo.empty == []


def test_docs_metrics_describes_every_series_of_the_exporter(demo: Played):
    assert demo.undocumented == []


def test_it_ends_with_the_report_of_what_was_played(demo: Played):
    report = demo.printed[demo.printed.index("## Blast radius") :]
    timeline = "\n".join(report)
    killed = re.findall(r"action     broker (\d) was killed", "\n".join(demo.printed))
    assert killed, "a script kills a broker"
    for broker in killed:
        assert re.search(rf"broker {broker}\b", timeline), timeline
    assert "no event of the span was recorded" not in timeline
    assert "kafka-twin capsule open" in timeline, "what leads to each moment"
    assert "\\_" not in timeline


def test_nothing_is_left(demo: Played):
    ports = [*range(demo.ports["--port"] + 1, demo.ports["--port"] + 4),
             *range(demo.ports["--metrics-port"], demo.ports["--metrics-port"] + 4),
             demo.ports["--prometheus-port"], demo.ports["--prometheus-port"] + 3]  # fmt: skip
    assert [port for port in ports if processes.is_listening(port)] == []
    assert demo.left == []
