"""Partitions as plain data: everything the twin knows and concludes of each.

Unknown is null. The rules run over the rows of the page alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from streaming.exporter.findings import findings
from streaming.exporter.plain import known, number, observed, seconds, word
from streaming.runtime.kafka_uuid import uuid_text
from twin.fleet import Array, Fleet, rearranged
from twin.rules import upload
from twin.rules.balance import NEVER, seconds_to_eligible
from twin.rules.coverage import held_bytes, span_ms, timestamp_suspect
from twin.rules.election import LossOutcome, effective_min_isr
from twin.rules.kip501 import in_sync_solution_1
from twin.rules.replication import lag_records
from twin.rules.risks import RULES as RISKS
from twin.tables import SAMPLE_COLUMNS, UNKNOWN, Coverage, Election, PendingUpload, Slot
from twin.totals import RULES


def partition_rows(fleet: Fleet, rows: Array, now_ms: int) -> list[dict[str, Any]]:
    """Those rows of the fleet, in their order."""
    if not len(rows):
        return []
    least = effective_min_isr(fleet)[rows]  # follows a topic's first partition, on another page
    page = replace(fleet, **rearranged(fleet, rows))
    replicas = _replicas(page, now_ms)
    described = page.described_at_ms != UNKNOWN
    names = page.topic_names()
    lag, lag_bytes = upload.lag_records(page), upload.lag_bytes(page)
    found = findings(page, now_ms)
    return [
        {
            "topic": names[row],
            "topic_id": uuid_text(page.topics.topic_id[page.topic_index[row]]),
            "partition": int(page.partition[row]),
            # Nobody leads: -1. Nobody has told yet: null.
            "leader": int(page.leader[row]) if described[row] else None,
            "leader_epoch": known(page.leader_epoch[row]),
            "min_isr": int(least[row]),
            "risks": [rule.name for rule in RISKS if int(page.risks[row]) & rule.risk],
            "if_leader_lost": {
                rule: {
                    "leader": int(getattr(page, f"next_leader_{rule}")[row]),
                    "outcome": word(LossOutcome, getattr(page, f"next_outcome_{rule}")[row]),
                }
                for rule in RULES
            },
            "kip1303": {
                str(bit.name).lower(): bool(int(page.election[row]) & bit) for bit in Election
            },
            "appended_records_per_second": number(page.appended_per_s[row]),
            "upload_lag_records": known(lag[row]),
            "upload_lag_bytes": number(lag_bytes[row]),
            **found[row],
            "replicas": replicas[row],
            **observed(page.described_at_ms[row], now_ms),
        }
        for row in range(len(page))
    ]


def _replicas(page: Fleet, now_ms: int) -> list[list[dict[str, Any]]]:
    """The assigned replicas of each row, in assignment order."""
    span, size, lag = span_ms(page, now_ms), held_bytes(page), lag_records(page)
    in_sync_501 = in_sync_solution_1(page, now_ms)
    suspect, eligible_in = timestamp_suspect(page, now_ms), seconds_to_eligible(page, now_ms)

    def replica(row: int, slot: int) -> dict[str, Any]:
        return {
            "broker": int(page.broker[row, slot]),
            **_marks(int(page.slot[row, slot])),
            **{name: known(getattr(page, name)[row, slot]) for name in _AS_SAMPLED},
            "pending_upload": word(PendingUpload, page.pending_upload[row, slot]),
            "error_code": int(page.error_code[row, slot]),
            "local_log_bytes": known(size[row, slot]),
            "local_log_span_seconds": seconds(span[row, slot]),
            "timestamp_suspect": bool(suspect[row, slot]),
            "lag_records": known(lag[row, slot]),
            "in_sync": known(page.in_sync[row, slot], bool),
            "in_sync_kip501": known(in_sync_501[row, slot], bool),
            "coverage": word(Coverage, page.coverage[row, slot]),
            "eligible_in_seconds": number(eligible_in[row, slot]),
            "never_eligible": bool(eligible_in[row, slot] == NEVER),
            "caught_up_at_ms": known(page.caught_up_at_ms[row, slot]),
            **observed(page.sampled_at_ms[row, slot], now_ms),
        }

    return [
        [replica(row, slot) for slot in range(int(page.assigned[row]))] for row in range(len(page))
    ]


def _marks(slot: int) -> dict[str, bool]:
    return {
        name: bool(slot & mark)
        for name, mark in (
            ("in_isr", Slot.IN_ISR),
            ("in_elr", Slot.IN_ELR),
            ("offline", Slot.OFFLINE),
            ("adding", Slot.ADDING),
            ("removing", Slot.REMOVING),
        )
    }


_AS_SAMPLED: Final = tuple(
    name
    for name in SAMPLE_COLUMNS
    if name not in ("pending_upload", "error_code", "local_log_bytes")
)
