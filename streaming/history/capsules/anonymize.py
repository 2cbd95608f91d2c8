"""Recorded observations and events with other names in place of the cluster's.

Every column of text or of ids is rewritten by what it names, and one that is not known here gets
other names too, so that nothing passes because it was forgotten. Frames of kinds that the catalog
does not have cannot be rewritten, and are left out. States are made by replay of the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
import pyarrow as pa

from streaming.bus.view import QUERY_KINDS
from streaming.history.capsules.pseudonyms import LEFT_OUT, OtherNames
from streaming.history.capsules.saving import Recorded
from twin.engine import frames
from twin.engine.catalog import Catalog
from twin.engine.frames import Frame, InvalidFrame

_WORDS: Final = re.compile(r"[A-Za-z0-9_ ]{0,80}")
"""What says where a problem is, and its error: words of Kafka's and of the collector."""

_VERSION: Final = re.compile(r"[0-9.]{0,10}\+?")
"""A release of Kafka."""

_KINDS: Final = {
    "topic": "topic",
    "group": "group",
    "rack": "rack",
    "transactional_id": "transaction",
}
"""What a column of that name names."""

_PLAIN_FIELDS: Final = ("kind", "at_ms", "partition", "broker", "before", "after", "reason")
"""Of an event: they hold words of the twin's, and numbers."""


def anonymized(recorded: Recorded, catalog: Catalog) -> Recorded:
    """The same with other names everywhere, as a person would see it who must not know them."""
    names = OtherNames()
    cluster = names.name("cluster", recorded.cluster)
    own_topics = tuple(names.name("topic", each) for each in recorded.own_topics)
    rewriter = _Rewriter(names, catalog, cluster)
    for _, message in recorded.messages:
        rewriter.learn(message)
    for event in recorded.events:
        topic = _decoded(event).get("topic")
        if isinstance(topic, str):
            names.name("topic", topic)
    messages = [(shard, rewriter.message(message)) for shard, message in recorded.messages]
    return replace(
        recorded,
        cluster=cluster,
        messages=[(shard, message) for shard, message in messages if message],
        events=[rewriter.event(_decoded(event)) for event in recorded.events],
        own_topics=own_topics,
        anonymized=True,
        left_out=rewriter.left_out,
    )


class _Rewriter:
    def __init__(self, names: OtherNames, catalog: Catalog, cluster: str) -> None:
        self._names, self._cluster, self._kinds = names, cluster, catalog.observations
        self.left_out = 0

    def learn(self, message: bytes) -> None:
        """Know all names of a message before any sentence is rewritten."""
        for frame in self._frames(message):
            for name, column in zip(frame.rows.column_names, frame.rows.columns, strict=True):
                if name not in ("text", "source", "error"):
                    self._rewritten(name, column)

    def message(self, message: bytes) -> bytes:
        """The message with other names; empty if nothing of it is known."""
        read = self._frames(message, is_counted=True)
        return frames.join(frames.encode(self._frame(each), self._kinds) for each in read)

    def event(self, event: Mapping[str, Any]) -> bytes:
        """The event with other names. What the query says of itself may quote anything."""
        is_of_query = event.get("kind") in QUERY_KINDS
        text = LEFT_OUT if is_of_query else self._names.text(str(event.get("text", "")))
        other: dict[str, Any] = {
            "id": self._names.name("event", str(event.get("id", ""))),
            "cluster": self._cluster,
            "text": text,
        }
        other |= {name: event[name] for name in _PLAIN_FIELDS if _is_plain(event.get(name))}
        if not is_of_query and isinstance(event.get("topic"), str):
            other["topic"] = self._names.name("topic", event["topic"])
        if not is_of_query and isinstance(event.get("detail"), str):
            other["detail"] = self._names.text(event["detail"])
        return msgspec.json.encode(other)

    def _frames(self, message: bytes, *, is_counted: bool = False) -> Sequence[Frame]:
        try:
            decoded = frames.decode(message, self._kinds)
        except InvalidFrame:
            self.left_out += is_counted
            return ()
        if is_counted:
            self.left_out += len(decoded.unknown_kinds) + len(decoded.invalid)
        return decoded.frames

    def _frame(self, frame: Frame) -> Frame:
        schema = self._kinds[frame.header.kind].schema()
        columns = [
            self._rewritten(name, column)
            for name, column in zip(frame.rows.column_names, frame.rows.columns, strict=True)
        ]
        header = replace(frame.header, cluster=self._cluster)
        return Frame(header, pa.table(columns, schema=schema))

    def _rewritten(self, name: str, column: pa.ChunkedArray) -> pa.Array:
        array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
        other = self._other(name, kind)
        if other is None:
            return array
        if not pa.types.is_dictionary(array.type):
            return pa.array([other(each) for each in array.to_pylist()], array.type)
        # The whole dictionary: it may have entries that no row has.
        entries = pa.array([other(each) for each in array.dictionary.to_pylist()], kind)
        return pa.DictionaryArray.from_arrays(array.indices, entries)

    def _other(self, name: str, kind: pa.DataType) -> Callable[[Any], Any] | None:
        """The function for the values of a column; None if they are numbers."""
        if pa.types.is_fixed_size_binary(kind) or pa.types.is_binary(kind):
            return self._names.identity
        if not pa.types.is_string(kind):
            return None
        match name:
            case "host":
                return self._names.host
            case "text":
                return lambda text: LEFT_OUT if text else text
            case "source" | "error":
                return self._words
            case "kafka_version":
                return lambda text: text if _VERSION.fullmatch(text) else ""
            case _:
                return lambda text: self._names.name(_KINDS.get(name, "name"), text)

    def _words(self, text: str) -> str:
        other = self._names.text(text)
        return other if other == text and _WORDS.fullmatch(text) else LEFT_OUT


def _is_plain(value: Any) -> bool:
    """Whether it is a number, a word of letters alone, or a list of numbers."""
    match value:
        case int():
            return True
        case str():
            return re.fullmatch(r"[a-z0-9_]{1,60}", value) is not None
        case list():
            return all(isinstance(each, int) for each in value)
        case _:
            return False


def _decoded(event: bytes) -> Mapping[str, Any]:
    try:
        return msgspec.json.decode(event, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}
