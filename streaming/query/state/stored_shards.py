"""The state of a shard in Spark's state store: a whole state, and the updates since.

A batch stores only what changed: the update (``twin.engine.updates``), at its place in the chain,
and the version, which says where the chain ends. Now and then a whole state begins a new chain; the
updates of the old one are replaced as the new one grows. The same messages go onto the bus.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from streaming.query.state.memory import KnownStates
from streaming.query.state.worker_files import MessageFiles
from twin.engine import codec, frames, updates
from twin.engine.catalog import Catalog
from twin.engine.codec import DecodedState
from twin.engine.frames import InvalidFrame
from twin.engine.shard_state import ShardState
from twin.engine.updates import Version

_WHOLE: Final = StructType([StructField("state", BinaryType(), nullable=False)])
_NUMBER: Final = StructType([StructField("number", IntegerType(), nullable=False)])
_UPDATE: Final = StructType([StructField("update", BinaryType(), nullable=False)])
_VERSION: Final = StructType(
    [
        StructField("id", BinaryType(), nullable=False),
        StructField("number", IntegerType(), nullable=False),
        StructField("whole_cycle", LongType(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class StoredState:
    """The state of a shard as the last batch left it."""

    decoded: DecodedState
    version: Version | None  # None after a build that stored whole states only


class ShardStates:
    """Loads and stores the state of the shard whose key Spark has set."""

    def __init__(
        self,
        handle: StatefulProcessorHandle,
        catalog: Catalog,
        files: MessageFiles,
        memory: KnownStates,
    ) -> None:
        self._catalog, self._files, self._memory = catalog, files, memory
        self._whole = handle.getValueState("state", _WHOLE)
        self._updates = handle.getMapState("updates", _NUMBER, _UPDATE)
        self._version = handle.getValueState("version", _VERSION)

    def load(self, shard_key: str) -> StoredState | None:
        """The state as the last batch left it; None before the first.

        Raises:
            InvalidFrame: this build cannot read it.
        """
        version = self._stored_version()
        if version is None:  # of a build that stored whole states only, or nothing
            stored = self._whole.get()
            if stored is None:
                return None
            return StoredState(codec.decode(bytes(stored[0]), self._catalog), None)
        missing: list[bytes] = []
        message_id = version.id
        for number in range(version.number, -1, -1):
            known = self._memory.get(shard_key, message_id, self._catalog)
            if known is not None:
                break
            message = self._files.read(shard_key, number, message_id) or self._from_spark(number)
            if number == 0:
                known = codec.decode(message, self._catalog)
                break
            link = updates.link_of(message)
            if link is None or link.number != number:
                raise InvalidFrame("kind", f"update {number} of the state is not there")
            missing.append(message)
            message_id = link.since
        assert known is not None  # the loop ends with a whole state at the latest
        for update in reversed(missing):
            known = updates.applied(update, known)
        return StoredState(known, version)

    def store(
        self, shard_key: str, before: StoredState | None, state: ShardState
    ) -> Iterator[tuple[str, bytes]]:
        """Store the state; the key and value of each message that brings it to readers.

        Args:
            shard_key: the shard's.
            before: what ``load`` has returned for it, None also if it could not be read.
            state: the state to store.
        """
        version, decoded = (None, None) if before is None else (before.version, before.decoded)
        version, messages = updates.messages_for(state, version, decoded)
        stored = frames.join(messages)
        if version.number:
            self._updates.updateValue((version.number,), (stored,))
        else:
            self._whole.update((stored,))
        self._version.update(tuple(version))
        self._files.write(shard_key, version.number, version.id, stored)
        self._memory.put(shard_key, version.id, DecodedState(state))
        for part, message in enumerate(messages):
            yield shard_key + updates.place(version.number, part), message

    def _stored_version(self) -> Version | None:
        stored: Any = self._version.get()
        return None if stored is None else Version(bytes(stored[0]), stored[1], stored[2])

    def _from_spark(self, number: int) -> bytes:
        stored: Any = self._updates.getValue((number,)) if number else self._whole.get()
        if stored is None:
            raise InvalidFrame("parts", f"update {number} of the state is not there")
        return bytes(stored[0])
