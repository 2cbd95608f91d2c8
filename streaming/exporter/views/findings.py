"""Findings about a partition as sentences, made of its JSON.

Each function looks for one finding. Nothing is said of what is usual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from streaming.history.moment import time_text
from twin.arrays.plain import counted
from twin.kafka.kafka_topics import STOPPING_RISKS

PartitionData = Mapping[str, Any]

_CAUSES: Final = {
    "unclean": "it was not in sync",
    "shorter_log": "it came back with less than it had",
    "acks_1": "they were not replicated to it",
}

_ACKNOWLEDGED: Final = {
    "certain": "Some of them were committed.",
    "possible": "Whether they were acknowledged is unknown.",
    "no": "Producers with acks=all got no acknowledgement for them.",
}

_STAYED: Final = {
    True: " KIP-501 would have kept it in sync.",
    False: " KIP-501 would not have kept it either.",
    None: "",
}


def _what_stops(partition: PartitionData) -> Iterator[str]:
    """Of Kafka's own topics, what stops now, or would."""
    if stops := partition.get("what_stops"):
        is_so = not STOPPING_RISKS.isdisjoint(partition["risks"])
        when = (
            "This stops now" if is_so else "If it had no leader or refused writes, this would stop"
        )
        yield f"{when}: {stops}."


def _records_lost(partition: PartitionData) -> Iterator[str]:
    for each in partition.get("records_lost") or ():
        cause = _CAUSES.get(each["cause"], each["cause"])
        yield (
            f"Records lost: broker {each['new_leader']} leads without {_offsets(each)}, since "
            f"{cause}. {_ACKNOWLEDGED[each['acknowledged']]}"
            + ("" if each["end_is_exact"] else " These are the least.")
        )


def _unclean_elections(partition: PartitionData) -> Iterator[str]:
    for each in partition.get("unclean_elections") or ():
        yield (
            f"Unclean election: broker {each['new_leader']} was elected from outside the ISR and "
            f"the ELR, after leader {each['old_leader']}. Records from offset "
            f"{known(each['start_offset'])} on may be lost, to before "
            f"{known(each['end_estimate_offset'])} by estimate."
        )


def _shrinks(partition: PartitionData) -> Iterator[str]:
    kept = [each["would_have_stayed"] for each in partition.get("kip501") or ()]
    for i, each in enumerate(partition.get("isr_shrinks") or ()):
        back = each["rejoined_at_ms"]
        rest = "It is not back." if back is None else f"It was back at {time_text(back)}."
        stayed = _STAYED[kept[i]] if i < len(kept) else ""
        yield (
            f"Broker {each['broker']}, led by broker {each['leader']}, left the ISR at "
            f"{time_text(each['at_ms'])}: {each['meaning']}. {rest}{stayed}"
        )
    if thrash := partition.get("isr_thrash"):
        yield (
            f"Broker {thrash['replica']} came back to the ISR "
            f"{counted(thrash['flaps'], 'time')}, every {known(thrash['period_seconds'])} s; "
            f"broker {thrash['attributed_broker']} is the likely cause."
        )


def _catching_up(partition: PartitionData) -> Iterator[str]:
    for each in partition.get("catching_up") or ():
        begins = f"Broker {each['broker']} catches up since {time_text(each['since_ms'])}"
        if each["stuck"]:
            yield f"{begins} and does not move: {_words(each['stuck'])}."
        elif each["progress"] is None:
            yield f"{begins}; how much it has is unknown."
        else:
            left = each["seconds_left"]
            yield (
                f"{begins} and has {each['progress']} of it"
                + ("." if left is None else f"; {left} s are left.")
            )


def _truncations(partition: PartitionData) -> Iterator[str]:
    for each in partition.get("truncations") or ():
        yield f"Broker {each['broker']} has records that the leader lacks. " + (
            "How many is unknown."
            if each["to_offset"] is None
            else f"It truncates to {each['to_offset']}: {counted(each['records'], 'record')}."
        )


def _unclean_successors(partition: PartitionData) -> Iterator[str]:
    for each in partition.get("unclean_successors") or ():
        lost = each["records_lost"]
        records = "an unknown number of records" if lost is None else counted(lost, "record")
        yield f"An unclean election of broker {each['broker']} would lose {records}."


def _handover(partition: PartitionData) -> Iterator[str]:
    to = partition.get("handover_kip501") or {}
    if to.get("leader") is not None:
        cold = ", which is cold" if to["is_cold"] else ""
        slow = ", which is slow itself" if to.get("is_slow") else ""
        yield (
            f"The leader is slow: by KIP-501 it would hand over to broker {to['leader']}"
            f"{cold}{slow}."
        )
    if back := partition.get("kip501_ping_pong"):
        yield (
            f"By KIP-501 leadership would have moved at most {counted(back['handovers'], 'time')} "
            f"since {back['since_ms']} ms, back and forth with broker {back['broker']}."
        )


def _reads(partition: PartitionData) -> Iterator[str]:
    if cold := partition.get("cold_reads"):
        yield (
            f"Consumers sent to broker {cold['broker']} read {_offsets(cold)} from remote storage, "
            "though another replica has them on disk."
        )
    for each in partition.get("out_of_range_windows") or ():
        yield (
            f"Broker {each['broker']} cannot serve {_offsets(each)} (KIP-392, "
            f"{_words(each['case'])}): it answers {each['error'] or 'no error and no records'}."
        )
    if without := partition.get("racks_without_in_sync_replica"):
        yield f"No replica in {', '.join(without)} is in sync."


def _remote_storage(partition: PartitionData) -> Iterator[str]:
    tier = partition.get("remote_segments") or {}
    if tier.get("gap_start_offset") is not None:
        yield (
            f"Offsets {tier['gap_start_offset']} to before {known(tier['gap_end_offset'])} are in "
            "no finished copy in remote storage."
        )
    for field, what in (
        ("orphan_segments", "no longer belong to the log, and Kafka does not delete them"),
        ("dangling_segments", "were started and are not finished"),
        ("duplicates", "have offsets that another copy has"),
        ("undescribed_segments", "have unknown offsets"),
    ):
        if tier.get(field):
            yield f"Copies in remote storage that {what}: {tier[field]}."


def _open_transaction(partition: PartitionData) -> Iterator[str]:
    if it := partition.get("open_transaction"):
        yield (
            f"An open transaction holds back {known(it['records_held'])} records from offset "
            f"{it['stable_offset']}: producer id {known(it['producer_id'])}, transactional id "
            f"{known(it['transactional_id'])}."
        )


FINDINGS: Final[Sequence[Callable[[PartitionData], Iterator[str]]]] = (
    _what_stops,
    _records_lost,
    _unclean_elections,
    _shrinks,
    _catching_up,
    _truncations,
    _unclean_successors,
    _handover,
    _reads,
    _remote_storage,
    _open_transaction,
)
"""The findings in their order: those that page somebody come first."""


def _offsets(of: Mapping[str, Any]) -> str:
    return f"offsets {of['start_offset']} to before {known(of['end_offset'])}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def known(value: Any) -> Any:
    """The value for a sentence."""
    return "unknown" if value is None else value
