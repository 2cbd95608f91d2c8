"""Why a partition is as it is, and who leads it next: sentences made of its JSON alone.

The numbers are those of the JSON, unrounded: whoever reads both finds them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypedDict

from streaming.exporter.views.findings import FINDINGS, known
from streaming.questions.answer import listed, safety_words, some
from twin.arrays.plain import counted
from twin.declarations.table import KAFKA, NO_BROKER

PartitionData = Mapping[str, Any]
"""A partition as the API answers it."""


class Explained(TypedDict):
    """Why a partition is as it is, in sentences."""

    topic: str
    partition: int
    risks: list[str]
    sentences: list[str]
    observed_at_ms: int | None
    age_seconds: float | None


def explained(
    partition: PartitionData, risks: Mapping[str, str], rules: Mapping[str, str]
) -> Explained:
    """The sentences about a partition.

    Args:
        partition: its JSON.
        risks: the meaning of each risk, by its name.
        rules: the title of each election rule by its name, Kafka's first.
    """
    sentences = [
        *_standing(partition),
        *(f"Risk {name}: {risks.get(name, 'unknown')}." for name in partition["risks"]),
        *_next_leaders(partition, rules),
        *(sentence for find in FINDINGS for sentence in find(partition)),
        *map(_replica, partition["replicas"]),
        *_groups(partition),
    ]
    if partition["age_seconds"] is not None:
        sentences.append(f"Its metadata were observed {partition['age_seconds']} s ago.")
    return {
        "topic": partition["topic"],
        "partition": partition["partition"],
        "risks": list(partition["risks"]),
        "sentences": sentences,
        "observed_at_ms": partition["observed_at_ms"],
        "age_seconds": partition["age_seconds"],
    }


# ---------------------------------------------------------------- state


_REDUNDANCY: Final = {
    "no_spare": "It has no more replicas than min.insync.replicas: no restart of one avoids that "
    "acks=all is refused.",
    "one_replica": "It has one replica: no restart of that broker avoids that it is offline.",
    "one_replica_accepted": "It has one replica, which cluster.one_replica_topics accepts.",
    "not_judged": "It is diskless, and is not judged.",
}


def _standing(partition: PartitionData) -> Iterator[str]:
    """Leader, ISR and what acks=all needs."""
    name = f"{partition['topic']}-{partition['partition']}"
    leader, replicas = partition["leader"], partition["replicas"]
    if leader is None:
        yield f"Who leads {name} is unknown: no listing described it yet."
    elif leader == NO_BROKER:
        yield f"{name} has no leader: it is offline."
    else:
        yield f"Broker {leader} leads {name}, in leader epoch {known(partition['leader_epoch'])}."
    in_sync = [each["broker"] for each in replicas if each["in_isr"]]
    out = [each["broker"] for each in replicas if not each["in_isr"]]
    yield (
        f"{len(in_sync)} of {counted(len(replicas), 'replica')} in the ISR: {listed(in_sync)}; "
        f"out of it: {listed(out)}. acks=all needs {known(partition['min_isr'])} "
        "(min.insync.replicas)."
    )
    for flag, what in (("offline", "offline"), ("in_elr", "in the ELR")):
        if marked := [each["broker"] for each in replicas if each[flag]]:
            yield f"Replicas {what}: {listed(marked)}."
    if partition.get("redundancy") in _REDUNDANCY:
        yield _REDUNDANCY[partition["redundancy"]]


def _replica(replica: Mapping[str, Any]) -> str:
    coverage = replica.get("coverage")
    return (
        f"Broker {replica['broker']} has offsets {known(replica['local_log_start_offset'])} to "
        f"before {known(replica['log_end_offset'])} on disk "
        f"({known(replica['local_log_bytes'])} bytes), "
        f"{known(replica.get('lag_records'))} records behind the leader"
        + (f"; it is {coverage.replace('_', ' ')}." if coverage else ".")
    )


def _groups(partition: PartitionData) -> Iterator[str]:
    """Where the groups in use read, and how far behind they are."""
    in_use = [each for each in partition.get("groups") or () if each["in_use"]]
    if in_use:
        names = [
            f"{each['group']} ({known(each['lag_records'])} records behind, reads from "
            f"{known(each['reads_from'])})"
            for each in in_use
        ]
        yield f"{counted(len(names), 'group reads', 'groups read')} it: {some(names)}."


# ---------------------------------------------------------------- next leader


def _next_leaders(partition: PartitionData, rules: Mapping[str, str]) -> Iterator[str]:
    """Who leads if the leader is lost, by each election rule, and why."""
    following = partition["next_leaders"]
    leader = partition["leader"]
    if_lost = f"If broker {leader} is lost" if leader not in (None, NO_BROKER) else "At an election"
    for rule, title in rules.items():
        after = following.get(rule)
        if after is None:
            continue
        if after["outcome"] is None:
            yield f"{if_lost}, who leads by {title}'s election is unknown."
            continue
        nobody = after["leader"] == NO_BROKER
        who = "nobody leads" if nobody else f"broker {after['leader']} leads"
        how = "" if nobody else f" ({safety_words(after)})"
        why = _why_kafka(partition) if rule == KAFKA else _why_other(partition, rule)
        yield f"{if_lost}, {who} by {title}'s election{how}: {why}."
    if silent := partition.get("silent_successor"):
        then = silent["then"]
        yield (
            "That broker does not answer. Kafka may elect it until it is fenced; then "
            + ("nobody leads." if then == NO_BROKER else f"broker {then} leads.")
        )


_WHY: Final = {
    "elr": "no other replica is in sync, and this one is in the ELR (KIP-966), until it crashes or "
    "min.insync.replicas is changed, at any level",
    "last_known": "ISR and ELR are empty, so that the last known leader leads: records may be lost",
    "unclean": "no other replica is in sync, and unclean elections are on: records may be lost",
}


def _why_kafka(partition: PartitionData) -> str:
    """Kafka takes the first of the assignment that is in sync and not fenced."""
    order = [each["broker"] for each in partition["replicas"]]
    after = partition["next_leaders"][KAFKA]
    others = [broker for broker in order if broker != partition["leader"]]
    if after["outcome"] == "none":
        if not others:
            return "it has one replica"
        return "no other replica is in sync and online, and unclean elections are off"
    if after["outcome"] in _WHY:
        return _WHY[after["outcome"]]
    passed = others[: others.index(after["leader"])] if after["leader"] in others else []
    return (
        f"it is the first in the assignment ({listed(order)}) that is in sync and online after the "
        "leader" + (f"; {listed(passed)} cannot lead" if passed else "")
    )


def _why_other(partition: PartitionData, rule: str) -> str:
    """In what the election differs from Kafka's."""
    kafka, other = partition["next_leaders"][KAFKA], partition["next_leaders"][rule]
    standing = partition.get("standing") or {}
    more = standing[rule]["in_sync"] - standing[KAFKA]["in_sync"] if rule in standing else 0
    if more > 0:
        return f"{counted(more, 'replica')} out of the ISR would be in sync by this rule"
    if other["leader"] != kafka["leader"]:
        return "this rule tries the replicas in another order"
    return "the replica that Kafka elects"
