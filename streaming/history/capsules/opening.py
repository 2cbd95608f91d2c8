"""Reads a capsule, which may come from a stranger.

Every size is compared with a limit before it is read, members are asked for by the names of the
format and never become paths, content is JSON and Arrow, and each member must have the digest that
the manifest says. What does not fit is one line.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Final
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import msgspec
import pyarrow.compute as pc

from streaming.history.capsules import arrow_sizes, file_format
from streaming.history.capsules.file_format import Index, IndexedMessage, Manifest
from streaming.history.moment import time_text
from streaming.history.replay import Replay
from streaming.history.stepping import ShardPast, States, nothing_yet
from streaming.history.timeline import RecordedCycle, Timeline
from streaming.runtime.errors import UserError
from streaming.runtime.lru_cache import LruCache
from streaming.runtime.plugins import catalog as catalog_with
from twin.engine import codec, frames
from twin.engine.catalog import Catalog
from twin.engine.frames import InvalidFrame
from twin.engine.shard_reports import CLUSTER
from twin.engine.shard_state import ShardState
from twin.proposals import PROPOSALS
from twin.remote_log import segment_store

MOST_EXPANDED_BYTES: Final = 1 << 30
"""Of a message, decompressed: a shard of 40 000 replicas takes 5 MB."""

MOST_REPLICA_SLOTS: Final = 20_000_000
"""Rows times the widest assignment: a table has so many cells."""

_END: Final = b"PK\x05\x06"
_END_BYTES: Final = 22
_MOST_COMMENT_BYTES: Final = 65_535
_CHUNKS_KEPT: Final = 8


class CapsuleError(UserError):
    """The file is not a capsule that can be opened; one line says why, and what to do."""


class Capsule:
    """An open capsule: its manifest, its past and its events."""

    def __init__(self, path: Path) -> None:
        """Open and check it; messages and states are read when they are asked for.

        Raises:
            CapsuleError: it cannot be opened.
        """
        self._path = path
        self._chunks: LruCache[str, bytes] = LruCache(_CHUNKS_KEPT)
        # A sentence for each table of the newest states that this kafka-twin cannot use.
        self.discarded: dict[str, None] = {}
        with self._read():
            self._handle = path.open("rb")
        try:
            with self._read():
                _check_size(self._handle, path.stat().st_size)
                self._file = ZipFile(self._handle)
                self._infos = _members(self._file)
                self.manifest = self._manifest()
                self.catalog = self._catalog()
                self.replay = self._replay()
                # What is shown first, so that a damaged capsule is refused when it is opened.
                self.replay.view(self.replay.span.end_ms)
        except BaseException:
            self.close()
            raise

    @property
    def events(self) -> list[bytes]:
        """The messages of the events topic, in order of their times."""
        with self._read():
            return self._member(file_format.EVENTS, file_format.MOST_EVENTS_BYTES).splitlines()

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        begin, end = time_text(self.manifest.begin_ms), time_text(self.manifest.end_ms)
        return f"a capsule of {self.manifest.cluster} from {begin} to {end}"

    def close(self) -> None:
        """Close the file."""
        self._handle.close()

    # ------------------------------------------------------------ inside

    @contextmanager
    def _read(self) -> Iterator[None]:
        """Turn whatever a damaged file causes into one line."""
        try:
            yield
        except CapsuleError:
            raise
        except OSError as error:
            raise CapsuleError(f"{self._path}: {error.strerror or error}") from None
        except (
            BadZipFile, InvalidFrame, msgspec.MsgspecError, zlib.error, EOFError, MemoryError,
            NotImplementedError, ValueError, RuntimeError, KeyError, IndexError, TypeError,
            OverflowError,
        ) as error:  # fmt: skip
            why = (str(error) or type(error).__name__).splitlines()[0][:200]
            raise CapsuleError(f"{self._path}: is not a capsule, or is damaged: {why}") from None

    def _manifest(self) -> Manifest:
        content = self._content(file_format.MANIFEST, file_format.MOST_MANIFEST_BYTES)
        saved = msgspec.json.decode(content, type=_FormatVersion)
        if saved.format_version != file_format.FORMAT_VERSION:
            raise CapsuleError(
                f"{self._path}: is a capsule of format {saved.format_version}, and kafka-twin "
                f"{version('kafka-twin')} reads format {file_format.FORMAT_VERSION}: open it with "
                f"kafka-twin {saved.product_version[:40]}, which saved it"
            )
        manifest = msgspec.json.decode(content, type=Manifest)
        if not 0 < manifest.shards <= file_format.MOST_SHARDS:
            raise ValueError(f"it has {manifest.shards} shards")
        if not 0 <= manifest.begin_ms <= manifest.end_ms < 1 << 46:
            raise ValueError("its span is invalid")
        if not manifest.cluster.isprintable() or len(manifest.cluster) > 1_000:
            raise ValueError("the cluster's name is too long or not printable")
        return manifest

    def _catalog(self) -> Catalog:
        if not {*self.manifest.proposals} <= {*PROPOSALS}:
            raise ValueError("it names proposals that this kafka-twin does not have")
        return catalog_with(self.manifest.proposals)

    def _replay(self) -> Replay:
        manifest = self.manifest
        content = self._member(file_format.INDEX, file_format.MOST_INDEX_BYTES)
        index = msgspec.json.decode(content, type=Index)
        if not 0 < len(index.cycles) <= file_format.MOST_CYCLES:
            raise ValueError(f"it has {len(index.cycles)} cycles")
        times = [each.at_ms for each in index.cycles]
        if times != sorted({*times}) or (times[0], times[-1]) != (
            manifest.begin_ms,
            manifest.end_ms,
        ):
            raise ValueError("its cycles are not those of its span")
        sent: list[list[tuple[int, Callable[[], bytes]]]] = [[] for _ in times]
        for each in index.messages:
            if not (0 <= each.cycle < len(times) and 0 <= each.shard < manifest.shards):
                raise ValueError("a message belongs to no cycle or shard")
            sent[each.cycle].append((each.shard, partial(self._message, each)))
        cycles = [RecordedCycle(c.at_ms, c.number, frozenset(c.whole_shards)) for c in index.cycles]
        if 0 not in index.whole:
            raise ValueError("the state at its beginning is missing")
        whole = {each: partial(self._states, each) for each in index.whole}
        return Replay(
            self.catalog, manifest.cluster, manifest.shards, Timeline(cycles, sent), whole
        )

    def _states(self, cycle: int) -> States:
        """The whole states after a cycle."""
        with self._read():
            manifest = self.manifest
            before = nothing_yet(self.catalog, manifest.cluster, manifest.shards)
            shards = {shard: self._shard(cycle, shard) for shard in range(manifest.shards)}
            own, name = before.cluster, file_format.cluster_name(cycle)
            if name in manifest.members:
                own = self._state(name, self.catalog.cluster, CLUSTER)
            return States(shards, own)

    def _shard(self, cycle: int, shard: int) -> ShardPast:
        members, name = self.manifest.members, file_format.state_name(cycle, shard)
        if name not in members:
            return ShardPast()
        state = self._state(name, self.catalog, shard)
        name = file_format.segments_name(cycle, shard)
        if name not in members:
            return ShardPast(state)
        return ShardPast(state, segment_store.decode(self._frames(name)))

    def _state(self, name: str, catalog: Catalog, shard: int) -> ShardState:
        content = self._frames(name)
        _check_slots(content)
        decoded = codec.decode(content, catalog)
        state = decoded.state
        self.discarded |= dict.fromkeys(decoded.discarded)
        expected = self.manifest.cluster, shard, self.manifest.shards
        if (state.cluster, state.shard, state.shards) != expected:
            raise ValueError(f"{name} is of another shard")
        return state

    def _frames(self, name: str) -> bytes:
        content = self._member(name, file_format.MOST_STATE_BYTES)
        arrow_sizes.check(content, MOST_EXPANDED_BYTES)
        return content

    def _message(self, place: IndexedMessage) -> bytes:
        with self._read():
            name = file_format.chunk_name(place.chunk)
            chunk = self._chunks.get(name, lambda: self._member(name, file_format.MOST_CHUNK_BYTES))
            if place.start < 0 or place.size_bytes <= 0:
                raise ValueError("a message has no place")
            message = chunk[place.start : place.start + place.size_bytes]
            if len(message) != place.size_bytes:
                raise ValueError("a message ends after its chunk")
            arrow_sizes.check(message, MOST_EXPANDED_BYTES)
            _check_slots(message)
            return message

    def _member(self, name: str, most_bytes: int) -> bytes:
        """A member as the manifest says."""
        said = self.manifest.members[name]
        content = self._content(name, most_bytes)
        if len(content) != said.size_bytes or sha256(content).hexdigest() != said.sha256:
            raise ValueError(f"{name} is not as the manifest says")
        return content

    def _content(self, name: str, most_bytes: int) -> bytes:
        info = self._infos.get(name)
        if info is None:
            raise ValueError(f"{name} is missing")
        if info.file_size > most_bytes:
            raise ValueError(f"{name} has {info.file_size} bytes; the limit is {most_bytes}")
        with self._file.open(info) as member:
            content = member.read(most_bytes + 1)
        if len(content) != info.file_size:
            raise ValueError(f"{name} does not have the size that it states")
        return content


class _FormatVersion(msgspec.Struct):
    format_version: int
    product_version: str


def _check_size(file: IO[bytes], size: int) -> None:
    """Refuse a file, or a directory in it, that is too large, before the whole of it is read."""
    if size > file_format.MOST_FILE_BYTES:
        raise ValueError(f"it has {size} bytes; the limit is {file_format.MOST_FILE_BYTES}")
    file.seek(max(size - _END_BYTES - _MOST_COMMENT_BYTES, 0))
    tail = file.read()
    at = tail.rfind(_END)
    if at < 0 or len(tail) - at < _END_BYTES:
        raise BadZipFile("it is not a zip file")
    end = tail[at : at + _END_BYTES]
    members, directory = int.from_bytes(end[10:12], "little"), int.from_bytes(end[12:16], "little")
    if b"PK\x06\x07" in tail[max(at - 20, 0) : at]:
        raise BadZipFile("it is a zip file for more than 2 GiB")
    if members > file_format.MOST_MEMBERS or directory > file_format.MOST_DIRECTORY_BYTES:
        raise ValueError("it has too many members")
    file.seek(0)


def _members(file: ZipFile) -> Mapping[str, ZipInfo]:
    infos: dict[str, ZipInfo] = {}
    for info in file.infolist():
        if info.filename in infos:
            raise ValueError("a member occurs twice")
        if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED) or info.flag_bits & 1:
            raise ValueError("a member is encrypted, or compressed in another way")
        infos[info.filename] = info
    return infos


def _check_slots(message: bytes) -> None:
    """Refuse assignments that are wide in one row and would make every table as wide."""
    for _, rows in frames.streams(message):
        widest = 0
        if codec.SLOTS_USED in rows.column_names:
            widest = _largest(rows.column(codec.SLOTS_USED))
        elif "replicas" in rows.column_names:
            widest = _longest(rows.column("replicas"))
        if widest * rows.num_rows > MOST_REPLICA_SLOTS:
            raise InvalidFrame("rows", f"{rows.num_rows} rows of {widest} replicas")


def _largest(column: Any) -> int:
    return int(pc.max(column).as_py() or 0)


def _longest(column: Any) -> int:
    return int(pc.max(pc.list_value_length(column)).as_py() or 0)
