"""What the twin concludes of a partition beyond its offsets, as plain data.

Empty followers, replicas that are joining, shrinks of the ISR, remote segments. What does not hold
for a partition is an empty list or null.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

import numpy as np

from streaming.exporter.plain import known, number, seconds, word
from twin.fleet import Fleet
from twin.rules.balance import rack_names
from twin.rules.bootstrap import bootstrap, join_seconds, saved_share
from twin.rules.joining import active, progress, seconds_left, seconds_to_lead
from twin.rules.kip501 import hand_over
from twin.rules.replication import caught_up_uncertainty_ms
from twin.rules.selection import cold_reads, high_watermark, preferred_read_replica
from twin.rules.shrinks import SENTENCE, culprit, period_ms
from twin.tables import NO_BROKER, UNKNOWN, Evidence, JoinPath, StuckReason, Verdict
from twin.totals import FEATURE

JOIN_BYTES_PER_S: Final = 50 << 20
"""As ``kafka-twin whatif bootstrap`` has it where nothing is said."""


def findings(page: Fleet, now_ms: int) -> list[dict[str, Any]]:
    """[P] for each row of the page, its findings by name."""
    empty, joining = _empty_followers(page), _joining(page, now_ms)
    shrinks, tier, cold = _shrinks(page), _tier(page), _cold_reads(page, now_ms)
    reads, handed = _read_replicas(page, now_ms), _handed_over(page)
    uncertainty = caught_up_uncertainty_ms(page).max(axis=1, initial=UNKNOWN)
    return [
        {
            "empty_follower": empty[row],
            "joining": joining[row],
            "isr_shrinks": shrinks[row],
            "isr_thrash": _thrash(page, row),
            "cold_reads": cold[row],
            "read_replicas": reads[row],
            "kip501": handed[row],
            "remote_segments": tier.get(row),
            "caught_up_uncertainty_seconds": seconds(uncertainty[row]),
        }
        for row in range(len(page))
    ]


def _empty_followers(page: Fleet) -> list[dict[str, Any]]:
    """What an empty follower that joined now would do, with KIP-1023 on and off."""
    ways = {feature: bootstrap(page, feature == "on") for feature in FEATURE}
    saved = saved_share(ways["on"], ways["off"])
    takes = {feature: join_seconds(way, JOIN_BYTES_PER_S) for feature, way in ways.items()}
    return [
        {"kip1023_saves_share": number(saved[row])}
        | {
            f"kip1023_{feature}": {
                "path": word(JoinPath, way.path[row]),
                "log_start_offset": known(way.log_start_offset[row]),
                "start_offset": known(way.start_offset[row]),
                "records": known(way.records[row]),
                "bytes_estimated": number(np.rint(way.bytes[row])),
                "seconds_at_50_mib_a_second": number(takes[feature][row]),
            }
            for feature, way in ways.items()
        }
        for row in range(len(page))
    ]


def _joining(page: Fleet, now_ms: int) -> dict[int, list[dict[str, Any]]]:
    of = active(page)
    share, left, to_lead = (
        progress(page, of),
        seconds_left(page, of),
        seconds_to_lead(page, of, now_ms),
    )
    questions = _tier_questions(page)
    told: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for i, row in enumerate(of.row.tolist()):
        told[row].append(
            {
                "broker": int(of.broker[i]),
                "since_ms": int(of.since_ms[i]),
                "path": word(JoinPath, of.path[i]),
                "start_offset": known(of.start_offset[i]),
                "progress": number(share[i]),
                "records_per_second": number(of.records_per_s[i]),
                "seconds_left": number(left[i]),
                "seconds_to_lead": number(to_lead[i]),
                "stuck": word(StuckReason, of.stuck[i]),
                "tier_question": questions.get((row, int(of.broker[i]))),
            }
        )
    return told


def _tier_questions(page: Fleet) -> dict[tuple[int, int], dict[str, Any]]:
    """By row and follower, its last question where the tier ends, as a log tells."""
    of = page.starts
    return {
        (int(of.row[i]), int(of.broker[i])): {
            "at_ms": int(of.at_ms[i]),
            "leader": int(of.leader[i]),
            "pending_upload_offset": known(of.pending_upload_offset[i]),
            "error_code": int(of.error_code[i]),
            "times_asked": int(of.asked[i]),
        }
        for i in range(len(of))
    }


def _shrinks(page: Fleet) -> dict[int, list[dict[str, Any]]]:
    of = page.shrinks
    told: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for i, row in enumerate(of.row.tolist()):
        verdict = Verdict(int(of.verdict[i]))
        told[row].append(
            {
                "broker": int(of.broker[i]),
                "leader": known(of.leader[i]),
                "at_ms": int(of.at_ms[i]),
                "told_by_log_at_ms": known(of.told_at_ms[i]),
                "back_at_ms": known(of.back_at_ms[i]),
                "verdict": verdict.name.lower(),
                "meaning": SENTENCE[verdict],
                "evidence": [str(e.name).lower() for e in Evidence if int(of.evidence[i]) & e],
                "kip501": {
                    "kept_by_solution_1": known(of.kept_by_solution_1[i], bool),
                    "handover_to": known(of.handover_to[i]),
                    "handover_thin": known(of.handover_thin[i], bool),
                },
            }
        )
    return told


def _thrash(page: Fleet, row: int) -> dict[str, Any] | None:
    """How often replicas leave its ISR and come back, and whom that is put down to."""
    of = page.shrinks.picked(page.shrinks.row == row)
    if not (of.back_at_ms != UNKNOWN).any():
        return None
    return {
        "flaps": int((of.back_at_ms != UNKNOWN).sum()),
        "period_seconds": number(period_ms(of) / 1000),
        "culprit": culprit(of),
    }


def _cold_reads(page: Fleet, now_ms: int) -> list[dict[str, Any] | None]:
    of = cold_reads(page, now_ms)
    return [
        None
        if of.broker[row] == NO_BROKER
        else {
            "broker": int(of.broker[row]),
            "start_offset": int(of.start_offset[row]),
            "end_offset": int(of.end_offset[row]),
        }
        for row in range(len(page))
    ]


def _read_replicas(page: Fleet, now_ms: int) -> list[dict[str, dict[str, int | None]]]:
    """By the consumer's rack: whom it is sent to for the newest records and the oldest on disk.

    As RackAwareReplicaSelector decides; and for the oldest that the leader has on its disk, whom
    KIP-1023 would rather have.
    """
    oldest, newest = page.of_leader(page.local_log_start_offset), high_watermark(page)
    told: list[dict[str, dict[str, int | None]]] = [{} for _ in range(len(page))]
    for rack in rack_names(page):
        chosen = {
            "newest": preferred_read_replica(page, rack, newest, now_ms),
            "oldest_on_disk": preferred_read_replica(page, rack, oldest, now_ms),
            "oldest_on_disk_tier_aware": preferred_read_replica(page, rack, oldest, now_ms, True),
        }
        for row, (first, last) in enumerate(zip(oldest.tolist(), newest.tolist(), strict=True)):
            if UNKNOWN not in (first, last):
                told[row][rack] = {name: known(of[row]) for name, of in chosen.items()}
    return told


def _handed_over(page: Fleet) -> list[dict[str, Any]]:
    """What KIP-501's solution 2 would do now."""
    to, thin = hand_over(page)
    return [
        {"hands_over_to": known(to[row]), "hands_over_to_thin": known(thin[row], bool)}
        for row in range(len(page))
    ]


def _tier(page: Fleet) -> dict[int, dict[str, Any]]:
    of = page.lineage
    return {
        row: {name: known(getattr(of, name)[i]) for name in of.__slots__}
        for i, row in enumerate(of.row.tolist())
    }
