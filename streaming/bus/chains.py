"""The newest state of one shard, out of its messages on the bus, in whatever order they come.

A message is a whole state, perhaps in parts, or an update of the message whose id it names.
Messages have several keys, so they are in several partitions of the topic and overtake each other;
a message may come twice, and one that is lost makes the rest of its chain useless. What is served
is always the state of one message: an update waits for the message before it, or for the next whole
state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from streaming.bus.snapshot_parts import PartSets
from twin.declarations.table import UNKNOWN
from twin.engine import updates
from twin.engine.codec import DecodedState
from twin.engine.shard_state import ShardState
from twin.engine.updates import Link

MOST_WAITING: Final = updates.MOST_UPDATES
_PASSED_KEPT: Final = 2 * updates.MOST_UPDATES


class Chain:
    """The messages of one shard."""

    def __init__(self, became: Callable[[ShardState], None] = lambda _: None) -> None:
        """``became`` is called with each state, also with one that the next message replaces."""
        self._became = became
        self._parts = PartSets()
        self._newest: DecodedState | None = None
        self._id = b""
        # The id of the message before -> when the update was observed, and the update.
        self._waiting: dict[bytes, tuple[int, bytes]] = {}
        self._passed: deque[bytes] = deque(maxlen=_PASSED_KEPT)

    @property
    def state(self) -> ShardState | None:
        """The newest state; None before there is a whole one."""
        return None if self._newest is None else self._newest.state

    @property
    def is_behind(self) -> bool:
        """Whether an update waits for a message that has not come."""
        return bool(self._waiting)

    def take_part(self, part: int, parts: int, decoded: DecodedState, message: bytes) -> None:
        """Take a part of a whole state.

        Raises:
            InvalidFrame: an update that waited for it cannot be used.
        """
        whole = self._parts.take(part, parts, decoded, message)
        if whole is None or whole.id in self._passed:
            return
        if whole.decoded.state.observed_at_ms >= self._at_ms:
            self._become(whole.id, whole.decoded)
            self._follow()

    def take_update(self, link: Link, message: bytes) -> None:
        """Take an update.

        Raises:
            InvalidFrame: it, or one that waited for it, cannot be used.
        """
        is_repeat = link.since in self._passed and link.since != self._id
        if is_repeat or link.header.observed_at_ms < self._at_ms:
            return
        self._waiting[link.since] = link.header.observed_at_ms, message
        if len(self._waiting) > MOST_WAITING:
            del self._waiting[min(self._waiting, key=lambda since: self._waiting[since][0])]
        self._follow()

    @property
    def _at_ms(self) -> int:
        return UNKNOWN if self._newest is None else self._newest.state.observed_at_ms

    def _become(self, message_id: bytes, decoded: DecodedState) -> None:
        self._id, self._newest = message_id, decoded
        self._passed.append(message_id)
        self._became(decoded.state)
        self._waiting = {
            since: update for since, update in self._waiting.items() if update[0] >= self._at_ms
        }

    def _follow(self) -> None:
        """Apply the updates that have waited for this state."""
        while self._newest is not None and self._id in self._waiting:
            _, update = self._waiting.pop(self._id)
            self._become(updates.id_of([update]), updates.applied(update, self._newest))
