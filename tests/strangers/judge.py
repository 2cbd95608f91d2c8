"""Compares the twin's API with what Kafka says, and its open risks with those that are true."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from streaming.runtime.kafka.uuids import uuid_text
from tests.cluster.broker_client import Key
from tests.strangers.kafka_view import GAUGES, KafkaView, Offsets

Partitions = Mapping[Key, Mapping[str, Any]]  # of the API
Lost = tuple[bytes, int]  # topic id and partition number

FOLLOW: Final = ("partition_offline", "under_min_isr", "at_min_isr", "no_clean_successor")
"""Risks that follow from Kafka's metadata and settings alone."""

REMOTE: Final = ("leader_cold", "next_leader_cold", "eligibility_unreachable")
"""Risks of who would have to read from remote storage what it lacks."""


def differences(
    before: tuple[KafkaView, Mapping[Key, Offsets]],
    partitions: Partitions,
    summary: Mapping[str, Any],
    after: Mapping[Key, Offsets],
) -> list[str]:
    """Where the API differs from Kafka at rest, a line each.

    Args:
        before: read before the observations of which the API's answer is made.
        partitions: of the API.
        summary: of the API.
        after: offsets that were read later: those of the API lie between both.
    """
    view, earlier = before
    lines = [f"{_name(key)}: not in the API" for key in view.partitions.keys() - partitions.keys()]
    lines += [f"{_name(key)}: not in Kafka" for key in partitions.keys() - view.partitions.keys()]
    for key in sorted(view.partitions.keys() & partitions.keys()):
        lines += _of_partition(view, earlier.get(key), after.get(key), key, partitions[key])
    for gauge, name in GAUGES.items():
        if view.gauges[gauge] != (mine := _counted(summary, partitions, name)):
            lines.append(f"{name}: {mine} in the API, Kafka's {gauge} is {view.gauges[gauge]}")
    return lines


def _of_partition(
    view: KafkaView, first: Offsets | None, last: Offsets | None, key: Key, mine: Mapping[str, Any]
) -> list[str]:
    state = view.partitions[key]
    replicas = mine["replicas"]
    values = {
        "topic_id": (mine["topic_id"], uuid_text(state.topic_id)),
        "leader": (mine["leader"], state.leader),
        "leader_epoch": (mine["leader_epoch"], state.epoch),
        "replicas": (tuple(r["broker"] for r in replicas), state.replicas),
        "isr": (set(mine["isr"]), set(state.isr)),
        "min_isr": (mine["min_isr"], view.least(key)),
    }
    leading = next((r for r in replicas if r["broker"] == state.leader), None)
    if leading is not None and first is not None and last is not None:
        for name in ("log_start_offset", "local_log_start_offset", "log_end_offset"):
            ours, least, most = leading[name], getattr(first, name), getattr(last, name)
            if ours is None or not least <= ours <= most:
                values[name] = (ours, f"{least} to {most}")
    return [
        f"{_name(key)}: {name} {ours} in the API, {theirs} in Kafka"
        for name, (ours, theirs) in values.items()
        if ours != theirs
    ]


def _counted(summary: Mapping[str, Any], partitions: Partitions, name: str) -> int:
    """A number of the summary; Kafka's leaders count under-replicated partitions, so nobody does
    where there is no leader."""
    value = int(summary[name])
    if name == "partitions_under_replicated":
        nobody = [p for p in partitions.values() if p["leader"] < 0]
        value -= sum(len(p["isr"]) < len(p["replicas"]) for p in nobody)
    return value


@dataclass(frozen=True)
class Risks:
    """The risks of a partition that must be open, and those that may be."""

    must: frozenset[str]
    may: frozenset[str] = frozenset()

    def wrong(self, opened: Iterable[str]) -> tuple[set[str], set[str]]:
        """The open ones that are false, and the missing ones."""
        is_open = set(opened)
        return is_open - self.must - self.may, self.must - is_open


def risks_of(
    view: KafkaView, offsets: Offsets | None, key: Key, lost: Collection[Lost] = ()
) -> Risks:
    """The risks that are true of a partition; ``lost``: those that have lost records."""
    state = view.partitions[key]
    in_sync, least = len(state.isr), view.least(key)
    must, may = set[str](), set[str]()
    if (state.topic_id, key[1]) in lost:
        must.add("records_lost")
        may.add("unclean_election")
    if state.leader < 0:
        must.add("partition_offline")
    else:
        if in_sync < least:
            must.add("under_min_isr")
        if in_sync == least and in_sync < len(state.replicas):
            must.add("at_min_isr")
        # An eligible replica in a failed log directory is not elected (LeaderAcceptor).
        others = ((state.isr | state.elr) - {state.leader} - state.offline) & view.alive
        if len(state.replicas) > 1 and not others:
            must.add("no_clean_successor")
    if (
        view.is_tiered(key)
        and offsets
        and offsets.local_log_start_offset > offsets.log_start_offset
    ):
        may |= set(REMOTE)
    if state.leader != state.replicas[0]:
        may.add("rack_skew")  # after ten minutes
    return Risks(frozenset(must), frozenset(may))


def false_risks(
    view: KafkaView,
    offsets: Mapping[Key, Offsets],
    partitions: Partitions,
    lost: Collection[Lost] = (),
) -> list[str]:
    """Risks that are open and not true, or true and not open, a line each."""
    lines = []
    for key in sorted(view.partitions.keys() & partitions.keys()):
        true = risks_of(view, offsets.get(key), key, lost)
        false, missing = true.wrong(partitions[key]["risks"])
        state = view.partitions[key]
        what = f"leader {state.leader}, isr {sorted(state.isr)} of {state.replicas}"
        lines += [f"{_name(key)}: {risk} is false ({what})" for risk in sorted(false)]
        lines += [f"{_name(key)}: {risk} is missing ({what})" for risk in sorted(missing)]
    return lines


def _name(key: Key) -> str:
    topic = key[0] if len(key[0]) < 60 else f"{key[0][:20]}..."
    return f"{topic}-{key[1]}"
