"""Decoded states that a Python worker keeps from batch to batch.

Spark gives a shard to whichever worker was idle longest, so the state that a worker has is mostly
one or two messages old: it applies the updates since then, and need not decode the whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from twin.engine.catalog import Catalog
from twin.engine.codec import DecodedState

KEPT_BYTES: Final = 512 << 20
"""Of one worker: the states of three million replicas. Every batch decodes the others: a whole
state, and all updates since."""


class KnownStates:
    """The newest states that this process has had, by shard and id of the message."""

    def __init__(self, limit_bytes: int = KEPT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._states: dict[str, tuple[bytes, int, DecodedState]] = {}

    def get(self, shard_key: str, message_id: bytes, catalog: Catalog) -> DecodedState | None:
        """The state of that message, as that catalog decodes it."""
        known_id, _, decoded = self._states.get(shard_key, (b"", 0, None))
        if decoded is None or known_id != message_id or decoded.state.catalog is not catalog:
            return None
        return decoded

    def put(self, shard_key: str, message_id: bytes, decoded: DecodedState) -> None:
        """Keep the state in place of the shard's last, unless the limit is reached."""
        self._states.pop(shard_key, None)
        size = decoded.state.nbytes()
        if size + sum(kept for _, kept, _ in self._states.values()) > self._limit_bytes:
            return
        self._states[shard_key] = message_id, size, replace(decoded, state=decoded.state.as_sent())

    def forget(self) -> None:
        """Keep nothing."""
        self._states.clear()


OF_THIS_PROCESS: Final = KnownStates()
"""Spark makes a processor anew for each task, and keeps the process."""
