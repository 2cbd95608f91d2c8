"""Observations of many clusters out of those of one.

To simulate ten million replicas takes more CPU time than to judge them. So one cluster is
simulated, and its messages are those of the others once they have another name in their headers:
byte for byte what the same simulation under that name would have sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from twin.engine.frames import join


class Part(NamedTuple):
    """An encoded frame: its schema, whose metadata are the header, and the bytes after it."""

    schema: pa.Schema
    rest: bytes


class Unnamed(NamedTuple):
    """A message of a shard of any cluster."""

    shard: int
    parts: Sequence[Part]

    def of(self, cluster: str) -> bytes:
        """The message of that cluster."""
        return join(
            part.schema.with_metadata({**part.schema.metadata, b"cluster": cluster.encode()})
            .serialize()
            .to_pybytes()
            + part.rest
            for part in self.parts
        )


def unnamed(shard: int, message: bytes) -> Unnamed:
    """A message without the name of its cluster."""
    return Unnamed(shard, [*_parts(message)])


def _parts(message: bytes) -> Iterator[Part]:
    source, begin = pa.BufferReader(message), 0
    while begin < len(message):
        with pa.ipc.open_stream(source) as stream:
            schema = stream.schema
            stream.read_all()
        head = schema.serialize().to_pybytes()
        assert message.startswith(head, begin), "a stream begins with its schema"
        yield Part(schema, message[begin + len(head) : source.tell()])
        begin = source.tell()
