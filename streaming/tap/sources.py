"""Lines as they are written: of a file that is rotated, or of a pipe.

Nothing here waits for a reader: what comes faster than it is read is skipped, and counted.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from pathlib import Path
from typing import BinaryIO, Final, Protocol

CHUNK_BYTES: Final = 8 << 20
"""Read at a time: some thousand lines."""

MOST_BEHIND_BYTES: Final = 256 << 20
"""A file is a buffer by itself; who is further behind than this will not catch up."""

MOST_PIPED_BYTES: Final = 64 << 20
"""A pipe has to be emptied, or its writer stands still: this much is held."""

LONGEST_LINE_BYTES: Final = 64 << 20
"""A full fetch of a hundred thousand partitions is a third of this."""

_BREAK: Final = b""
"""Stands among chunks where some are missing."""


class Source(Protocol):
    """Where lines come from."""

    skipped_bytes: int
    """What was not read, all in all: too far behind, or too long for a line."""

    gap: bool
    """Something was skipped since the last look; whoever looks takes it back."""

    problem: str
    """Why nothing comes, in one line; empty if all is well."""

    ended: bool
    """Nothing will come any more."""

    def lines(self) -> list[bytes]:
        """Whole lines that came since the last call, without their ends; never waits."""
        ...

    def close(self) -> None:
        """Give back what is held."""
        ...


class _Splitter:
    """Bytes in, whole lines out; the rest of the last one is kept."""

    def __init__(self) -> None:
        self._rest = b""
        self.too_long = 0

    def split(self, chunk: bytes) -> list[bytes]:
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > LONGEST_LINE_BYTES:
            self.too_long += len(self._rest)
            self._rest = b""
        return lines

    def drop(self) -> None:
        """What comes next does not go on where this ended."""
        self._rest = b""


class FileSource:
    """A log file by its path, over rotations: by rename (log4j, logrotate) and by truncation.

    Begins at its end, or at its beginning. A file that is not there yet is waited for.
    """

    def __init__(self, path: Path, *, from_beginning: bool = False) -> None:
        self.skipped_bytes = 0
        self.gap = False
        self.problem = ""
        self.ended = False
        self._path = path
        self._splitter = _Splitter()
        self._file: BinaryIO | None = None
        self._open(at_end=not from_beginning)

    def lines(self) -> list[bytes]:
        """Whole lines since the last call, up to CHUNK_BYTES."""
        if self._file is None and not self._open(at_end=False):
            return []
        file = self._file
        assert file is not None
        self._skip_if_hopeless(file)
        chunk = file.read(CHUNK_BYTES)
        if not chunk and self._turned_over(file):
            return self.lines()
        return self._split(chunk)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _split(self, chunk: bytes) -> list[bytes]:
        before = self._splitter.too_long
        lines = self._splitter.split(chunk)
        if self._splitter.too_long > before:
            self.skipped_bytes += self._splitter.too_long - before
            self.gap = True
        return lines

    def _open(self, *, at_end: bool) -> bool:
        try:
            file = self._path.open("rb")
        except OSError as error:
            self.problem = f"{self._path}: {error.strerror}"
            return False
        if at_end:
            file.seek(0, os.SEEK_END)
            # The line that is being written now is not read from its middle.
            self._skip_begun_line(file)
        self.problem = ""
        self._file = file
        return True

    def _skip_begun_line(self, file: BinaryIO) -> None:
        position = file.tell()
        if position:
            file.seek(position - 1)
            if file.read(1) != b"\n":
                self._file = file
                self._splitter = _AfterBreak()

    def _skip_if_hopeless(self, file: BinaryIO) -> None:
        behind = os.fstat(file.fileno()).st_size - file.tell()
        if behind > MOST_BEHIND_BYTES:
            file.seek(-CHUNK_BYTES, os.SEEK_END)
            self.skipped_bytes += behind - CHUNK_BYTES
            self.gap = True
            self._splitter = _AfterBreak()

    def _turned_over(self, file: BinaryIO) -> bool:
        """At the file's end: is there another one by its name, or has it been emptied?"""
        try:
            named, held = self._path.stat(), os.fstat(file.fileno())
        except OSError:
            return False  # between two files
        if (named.st_ino, named.st_dev) != (held.st_ino, held.st_dev):
            # The last lines may have been written between our read and this look.
            if held.st_size > file.tell():
                return True
            self.close()
            self._splitter.drop()
            return self._open(at_end=False)
        if held.st_size < file.tell():
            file.seek(0)
            self._splitter.drop()
            self.gap = True
            return held.st_size > 0
        return False


class _AfterBreak(_Splitter):
    """Leaves out what is left of the line it began in."""

    def __init__(self) -> None:
        super().__init__()
        self._began = False

    def split(self, chunk: bytes) -> list[bytes]:
        if not self._began:
            _, end, chunk = chunk.partition(b"\n")
            if not end:
                return []
            self._began = True
        return super().split(chunk)

    def drop(self) -> None:
        """What comes next begins a line."""
        self._began = True
        super().drop()


class PipeSource:
    """Standard input, read by a thread so that its writer never waits for us."""

    def __init__(self, file: BinaryIO) -> None:
        self.skipped_bytes = 0
        self.gap = False
        self.problem = ""
        self.ended = False
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self._splitter = _Splitter()
        self._lock = threading.Lock()
        self._over = False
        self._thread = threading.Thread(
            target=self._pump, args=(file.fileno(),), name="tap-stdin", daemon=True
        )
        self._thread.start()

    def lines(self) -> list[bytes]:
        """Whole lines since the last call."""
        with self._lock:
            chunks, over = list(self._chunks), self._over
            self._chunks.clear()
            self._held = 0
        lines = []
        for chunk in chunks:
            if chunk == _BREAK:
                self._splitter = _AfterBreak()
            else:
                lines += self._splitter.split(chunk)
        self.ended = over
        return lines

    def close(self) -> None:
        """The thread ends with the process: a read of a pipe cannot be called off."""

    def _pump(self, descriptor: int) -> None:
        while chunk := os.read(descriptor, 1 << 16):
            with self._lock:
                if self._held + len(chunk) > MOST_PIPED_BYTES:
                    self.skipped_bytes += len(chunk)
                    self.gap = True
                    if self._chunks[-1] != _BREAK:
                        self._chunks.append(_BREAK)
                else:
                    self._chunks.append(chunk)
                    self._held += len(chunk)
        with self._lock:
            self._over = True
