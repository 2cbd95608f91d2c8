"""Events as the JSON that goes to the events topic.

Every event has ``id``, ``kind``, ``cluster``, ``at_ms`` and ``text``; the rest depends on its kind.
An event written twice has the same id, so that readers of an at-least-once topic can drop it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from twin.declarations.table import UNKNOWN
from twin.engine.changes import Change
from twin.engine.frames import InvalidFrame


def changed(change: Change) -> tuple[str, bytes]:
    """Key and value of a change; the key is its object, so that changes of one stay in order."""
    event: dict[str, Any] = {
        "id": change.id,
        "kind": change.kind,
        "cluster": change.cluster,
        "at_ms": change.at_ms,
        "text": change.text,
    }
    if change.topic:
        event |= {"topic": change.topic, "partition": change.partition}
    if change.broker != UNKNOWN:
        event["broker"] = change.broker
    if change.detail:
        event["detail"] = change.detail
    if change.before or change.after:
        event |= {"before": change.before, "after": change.after}
    about = f"{change.topic}-{change.partition}" if change.topic else f"broker-{change.broker}"
    return f"{change.cluster}/{about}", msgspec.json.encode(event)


def refused(shard_key: str, row: Any, error: InvalidFrame) -> tuple[str, bytes]:
    """Key and value for an observation that cannot be used, with its position and the reason."""
    return f"{shard_key}/refused", msgspec.json.encode(
        {
            "id": f"refused/{row.topic}/{row.partition}/{row.offset}/{error.reason}",
            "kind": "observation_refused",
            "cluster": shard_key.rpartition("/")[0],
            "at_ms": row.timestamp_ms,
            "text": f"{row.topic} {row.partition}:{row.offset} was refused: {error}",
            "reason": error.reason,
            "detail": error.detail,
            "key": shard_key,
            "topic": row.topic,
            "partition": row.partition,
            "offset": row.offset,
        }
    )


def state_discarded(shard_key: str, error: InvalidFrame) -> tuple[str, bytes]:
    """Key and value for a state that this version cannot read: it is built again."""
    return f"{shard_key}/state", msgspec.json.encode(
        {
            "id": f"state/{shard_key}/{error.reason}/{error.detail}",
            "kind": "state_discarded",
            "cluster": shard_key.rpartition("/")[0],
            "at_ms": UNKNOWN,
            "text": f"the state of {shard_key} was discarded and is built anew: {error}",
            "reason": error.reason,
            "detail": error.detail,
            "key": shard_key,
        }
    )


def state_table_discarded(shard_key: str, table: str) -> tuple[str, bytes]:
    """Key and value for a table that this version cannot read: the other tables stay."""
    return f"{shard_key}/state", msgspec.json.encode(
        {
            "id": f"state/{shard_key}/table/{table}",
            "kind": "state_table_discarded",
            "cluster": shard_key.rpartition("/")[0],
            "at_ms": UNKNOWN,
            "text": f"a table of the state of {shard_key} was discarded: {table}",
            "detail": table,
            "key": shard_key,
        }
    )
