"""Checks which questions about the tiered log the brokers answer (ListOffsets)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka.protocol.consumer import ListOffsetsRequest

from streaming.checks.finding import CheckResult
from streaming.collector.cycle.observation import CycleResult
from streaming.collector.sources.offsets import LATEST_TIERED, PENDING_UPLOAD, SINCE
from streaming.collector.wire.connections import (
    BrokerConnections,
    EncodedRequest,
    Versions,
    negotiate_version,
)
from streaming.runtime.deadline import Deadline
from twin.declarations.table import UNKNOWN
from twin.tables.observations import ConfigsFrame

_KINDS: Final = (
    (
        LATEST_TIERED,
        "Kafka 3.9",
        "the last tiered offset as leaders know it, and what waits for its upload",
    ),
    (
        PENDING_UPLOAD,
        "Kafka 4.2",
        "the offset at which leaders let a new follower start (KIP-1023)",
    ),
)


def of_list_offsets(
    observation: CycleResult, brokers: BrokerConnections, deadline_ms: int
) -> Iterator[CheckResult]:
    """Say which brokers do not know -5 or -6, if a topic is tiered; no request is sent."""
    configs = observation.rows(ConfigsFrame)
    if not any(1 in table.column("remote_storage").to_pylist() for table in configs):
        return
    versions: dict[int, int] = {}

    def note(broker: int, them: Versions) -> list[EncodedRequest]:
        version = negotiate_version(them, ListOffsetsRequest)
        versions[broker] = UNKNOWN if version is None else version
        return []

    brokers.ask(brokers.broker_ids(), note, Deadline.after_ms(deadline_ms))
    for kind, since, without in _KINDS:
        lacking = sorted(b for b, version in versions.items() if version < SINCE[kind])
        who = f" (not brokers {', '.join(map(str, lacking))})" if lacking else ""
        what = f"ListOffsets {kind}, which {since} and later answer{who}"
        yield CheckResult(what, without if lacking else "")
