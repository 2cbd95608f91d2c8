"""JSON answers of the web application."""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from streaming.runtime.configuration.chosen import naming

GZIP_FROM_BYTES: Final = 2_000
"""Smaller answers fit into two packets uncompressed."""

_FASTEST: Final = 1  # answers are repetitive: 1 ms for 100 kB leaves a tenth of the bytes
_GZIP: Final = 16
"""Added to zlib's window bits: selects the gzip format."""


_GZIP_HEADER: Final = bytes([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 4, 0xFF])
"""Deflate, no name, no time, at the fastest level, on an unknown system (RFC 1952)."""


class RefusedError(Exception):
    """A request that gets a status other than 200, and the reason."""

    def __init__(self, why: str, status: int) -> None:
        super().__init__(why)
        self.status = status


def json_answer(value: Any, status: int = 200, cluster: str = "") -> Response:
    """The value as JSON. Commands in its texts name the ``cluster``, if it is one of several."""
    body = msgspec.json.encode(value)
    if cluster and b"kafka-twin " in body:
        body = naming(cluster, body.decode()).encode()
    return Response(body, status, media_type="application/json")


def error_answer(why: str, status: int) -> Response:
    """An error in one line."""
    return json_answer({"error": why}, status)


def accepts_gzip(request: Request) -> bool:
    """Whether the client accepts answers compressed with gzip."""
    return "gzip" in request.headers.get("accept-encoding", "")


def gzipped(parts: Iterable[bytes]) -> bytes:
    """The parts together, compressed at the fastest level."""
    packer = zlib.compressobj(_FASTEST, wbits=zlib.MAX_WBITS | _GZIP)
    return b"".join([*map(packer.compress, parts), packer.flush()])


class DeflatedOnce:
    """Parts that are compressed when they are first sent, and follow others in one gzip stream."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deflated: bytes | None = None

    def gzipped_after(self, first: bytes, parts: Sequence[bytes]) -> bytes:
        """``first`` and the parts as gzip; ``parts`` are the same in every call.

        Deflate streams may follow each other if the first is flushed to a whole byte and the second
        refers to nothing before it. Only the checksum at the end is of both.
        """
        with self._lock:
            if self._deflated is None:
                packer = zlib.compressobj(_FASTEST, wbits=-zlib.MAX_WBITS)
                self._deflated = b"".join([*map(packer.compress, parts), packer.flush()])
        packer = zlib.compressobj(_FASTEST, wbits=-zlib.MAX_WBITS)
        begin = packer.compress(first) + packer.flush(zlib.Z_FULL_FLUSH)
        checksum = zlib.crc32(first)
        for part in parts:
            checksum = zlib.crc32(part, checksum)
        size = (len(first) + sum(map(len, parts))) & 0xFFFFFFFF
        return b"".join([_GZIP_HEADER, begin, self._deflated, struct.pack("<II", checksum, size)])


def compressed(answer: Response, request: Request) -> Response:
    """The answer compressed with gzip, if it is large JSON and the client accepts that."""
    is_json = answer.headers.get("content-type") == "application/json"
    if not is_json or len(answer.body) < GZIP_FROM_BYTES:
        return answer
    answer.headers["Vary"] = "Accept-Encoding"
    if accepts_gzip(request):
        answer.body = gzipped([bytes(answer.body)])
        answer.headers["Content-Encoding"] = "gzip"
        answer.headers["Content-Length"] = str(len(answer.body))
    return answer
