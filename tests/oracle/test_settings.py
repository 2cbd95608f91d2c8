"""The list of settings against those that Kafka has."""

from __future__ import annotations

from streaming.collector.settings.known import PREFIXES, SETTINGS, Level
from tests.oracle.oracle import Oracle

ELSEWHERE = {
    "diskless.enable",  # KIP-1150
    "leader.election.eligible.local.log.ms",
    "leader.election.eligible.local.log.bytes",  # KIP-1303
    "leader.imbalance.per.broker.percentage",  # before Kafka 4.0
}


def test_every_setting_of_topics_replication_retention_and_tiers_is_listed_and_no_other(
    oracle: Oracle,
) -> None:
    [kafka] = oracle.ask([{"id": 0, "kind": "settings"}])
    topic, broker = set(kafka["topic"]), set(kafka["broker"])
    concerned = topic | {name for name in broker if name.startswith(PREFIXES)}
    listed = {setting.name for setting in SETTINGS}
    assert concerned - listed == set()
    # Brokers read some settings of topics by a name of their own.
    own = {setting.name for setting in SETTINGS if setting.level is Level.BROKER}
    own = {name for name in own if name.startswith(("log.retention.", "log.local.", "log.roll.",
                                                    "log.segment."))}  # fmt: skip
    assert listed - topic - broker - own == ELSEWHERE
