"""Metrics that the collector serves about itself (``metrics.collector_port``)."""

from __future__ import annotations

from typing import Final

from streaming.runtime.exposition.build import build_info, declared
from twin.declarations.declare import Metric

BUILD: Final = build_info("collector")
CYCLES: Final = Metric("collector_cycles", "Cycles that the collector completed.", type="counter")
CYCLE_SECONDS: Final = Metric(
    "collector_cycle_duration_seconds",
    "Time of a cycle of the collector, from the first request to the brokers until its observation "
    "is on the bus.",
    type="histogram",
)
OVERRUNS: Final = Metric(
    "collector_overruns",
    "Cycles that the collector left out because the one before took longer than "
    "collector.interval_ms.",
    type="counter",
)
UNSENT: Final = Metric(
    "collector_observations_unsent",
    "Observations whose messages the bus did not all accept within collector.deadline_ms.",
    type="counter",
)
PROBLEMS: Final = Metric(
    "collector_problems",
    "Problems of the newest cycle, by source: what the collector could not find out or send.",
    labels=("source",),
)
NOT_OFFERED: Final = Metric(
    "collector_not_offered",
    "Requests that brokers do not offer, by source: problems that will not go away by themselves.",
    labels=("source",),
)
ROUNDS: Final = Metric(
    "collector_rounds",
    "Rounds of what the collector reads beside its cycles, by source: groups, metrics of brokers.",
    labels=("source",),
    type="counter",
)
SENT_AT: Final = Metric(
    "collector_last_sent_timestamp_seconds",
    "Time at which the newest observation was completely on the bus; before the first one, the "
    "start of the collector.",
)

ANSWERED_AT: Final = Metric(
    "collector_last_answer_timestamp_seconds",
    "Time of the newest cycle in which a broker of the watched cluster answered; before the first "
    "one, the start of the collector.",
)
INTERVAL: Final = Metric(
    "collector_interval_seconds", "Time between two cycles: collector.interval_ms."
)

OWN: Final = declared(globals())
