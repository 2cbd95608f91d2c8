"""Files for Kafka's own tools, and the file for restoring the old state.

``restore.json`` has the format of ``reassignment.json`` with additional fields. Kafka's tool
ignores these, so it accepts both files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from streaming.plans.plan import Origin, Plan, PlanError, PlannedChange
from twin.declarations.table import NO_BROKER

REASSIGNMENT: Final = "reassignment.json"
ELECTION: Final = "election.json"
RESTORE: Final = "restore.json"


def write(plan: Plan, folder: Path, origin: Origin, *, of_several: bool = False) -> list[str]:
    """Write the files of a plan for a cluster, and return the commands that use them.

    Raises:
        PlanError: the folder holds a plan already, or cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / RESTORE).exists():
            raise PlanError(f"{folder} holds a plan already: choose another --out")
        _write(folder / REASSIGNMENT, reassignment(plan.changes))
        _write(folder / RESTORE, restoration(plan, origin))
        elected = to_elect(plan.changes)
        if elected:
            _write(folder / ELECTION, election(elected))
    except OSError as error:
        raise PlanError(f"{folder}: {error.strerror}") from None
    lines = [_reassign(folder / REASSIGNMENT, plan.moves_data)]
    if elected:
        lines.append(
            "kafka-leader-election.sh --bootstrap-server ... --election-type preferred "
            f"--path-to-json-file {folder / ELECTION}"
        )
    if plan.moves_data:  # kafka-twin moves no data, so Kafka's tool moves them back as well
        return [*lines, _reassign(folder / RESTORE, True)]
    named = f" --cluster {origin.cluster}" if of_several else ""
    return [*lines, f"kafka-twin plan restore {folder / RESTORE}{named}"]


def _reassign(file: Path, moves_data: bool) -> str:
    throttle = " --throttle BYTES_PER_S" if moves_data else ""
    return (
        "kafka-reassign-partitions.sh --bootstrap-server ... --reassignment-json-file "
        f"{file} --execute{throttle}"
    )


def reassignment(changes: Iterable[PlannedChange]) -> dict[str, Any]:
    """The input of kafka-reassign-partitions.sh."""
    return {
        "version": 1,
        "partitions": [
            {"topic": c.topic, "partition": c.partition, "replicas": list(c.planned)}
            for c in changes
        ],
    }


def to_elect(changes: Iterable[PlannedChange]) -> list[PlannedChange]:
    """The changes after which another replica is elected."""
    return [c for c in changes if c.elect not in (NO_BROKER, c.leader)]


def election(changes: Iterable[PlannedChange]) -> dict[str, Any]:
    """The input of kafka-leader-election.sh."""
    return {"partitions": [{"topic": c.topic, "partition": c.partition} for c in changes]}


def restoration(plan: Plan, origin: Origin) -> dict[str, Any]:
    """The original orders, together with the planned ones."""
    return {
        "version": 1,
        "plan": plan.name,
        "cluster": origin.cluster,
        "cluster_id": origin.cluster_id,
        "partitions": [as_json(change) for change in plan.changes],
    }


def as_json(change: PlannedChange) -> dict[str, Any]:
    """A change as a value that ``change_from`` reads."""
    value: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(change))
    return value


def change_from(value: Mapping[str, Any]) -> PlannedChange:
    """The change that ``as_json`` wrote.

    Raises:
        ValueError: it is not such a value.
    """
    return msgspec.convert(value, PlannedChange)


def _write(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")
