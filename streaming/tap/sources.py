"""Sources of log lines: a file that is rotated, and a pipe.

A source never blocks its writer. Lines that are written faster than they are read are skipped and
counted.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from pathlib import Path
from typing import BinaryIO, Final, Protocol

CHUNK_BYTES: Final = 8 << 20
"""Bytes of a file that are read at a time: some thousand lines."""

MAX_BEHIND_BYTES: Final = 256 << 20
"""A reader that is further behind the end of a file than this will not catch up."""

MAX_BUFFERED_BYTES: Final = 64 << 20
"""Bytes of a pipe that are held in memory: a pipe that nobody empties blocks its writer."""

MAX_LINE_BYTES: Final = 64 << 20
"""Three times the length of a full fetch of a hundred thousand partitions."""

_GAP: Final = b""
"""Marks the place among chunks where some were skipped."""


class LineSource(Protocol):
    """A source of lines."""

    name: str
    """The path of the file, or "standard input"."""

    skipped_bytes: int
    """Bytes skipped so far: the reader was too far behind, or a line was too long."""

    gap: bool
    """Something was skipped since the caller last set this to False."""

    behind_bytes: int
    """Bytes that are written and were not read by the last call of ``log_lines``."""

    problem: str
    """The reason why there are no lines, in one line; empty if nothing is wrong."""

    ended: bool
    """There will be no more lines."""

    def lines(self) -> list[bytes]:
        """Complete lines since the last call, without their line ends; never blocks."""
        ...

    def close(self) -> None:
        """Release what the source holds."""
        ...


class _LineSplitter:
    """Splits chunks into lines, and keeps the incomplete last line for the next chunk.

    Args:
        max_line_bytes: a longer line is dropped.
        within_line: the first chunk begins within a line, whose end is dropped.
    """

    def __init__(self, max_line_bytes: int, *, within_line: bool = False) -> None:
        self._dropped_bytes = 0
        self._max_line_bytes = max_line_bytes
        self._within_line = within_line
        self._incomplete = b""

    def split(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes."""
        if self._within_line:
            _, end, chunk = chunk.partition(b"\n")
            if not end:
                return []
            self._within_line = False
        lines = (self._incomplete + chunk).split(b"\n")
        self._incomplete = lines.pop()
        if len(self._incomplete) > self._max_line_bytes:
            self._dropped_bytes += len(self._incomplete)
            self._incomplete = b""
        return lines

    def take_dropped_bytes(self) -> int:
        """Bytes of lines that were dropped since the last call."""
        dropped, self._dropped_bytes = self._dropped_bytes, 0
        return dropped

    def reset(self) -> None:
        """Drop the incomplete line: the next chunk begins with a new line."""
        self._within_line = False
        self._incomplete = b""


class FileSource:
    """A log file, followed over rotations by rename (log4j, logrotate) and by truncation.

    A file that does not exist yet is waited for.

    Args:
        path: of the file.
        from_beginning: start with the lines that the file has already, not at its end.
        chunk_bytes: how much ``log_lines`` reads at most.
        max_behind_bytes: a reader further behind the end goes on near the end.
        max_line_bytes: a longer line is skipped.
    """

    def __init__(
        self,
        path: Path,
        *,
        from_beginning: bool = False,
        chunk_bytes: int = CHUNK_BYTES,
        max_behind_bytes: int = MAX_BEHIND_BYTES,
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        self.skipped_bytes = 0
        self.behind_bytes = 0
        self.gap = False
        self.problem = ""
        self.ended = False
        self.name = str(path)
        self._path = path
        self._chunk_bytes = chunk_bytes
        self._max_behind_bytes = max_behind_bytes
        self._max_line_bytes = max_line_bytes
        self._splitter = _LineSplitter(max_line_bytes)
        self._file: BinaryIO | None = None
        self._open(at_end=not from_beginning)

    def lines(self) -> list[bytes]:
        """Complete lines since the last call, from at most ``chunk_bytes``."""
        if self._file is None and not self._open(at_end=False):
            return []
        file = self._file
        assert file is not None
        self._skip_if_too_far_behind(file)
        chunk = file.read(self._chunk_bytes)
        if not chunk and self._rotated(file):
            return self.lines()
        self.behind_bytes = max(os.fstat(file.fileno()).st_size - file.tell(), 0)
        return self._split(chunk)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _split(self, chunk: bytes) -> list[bytes]:
        lines = self._splitter.split(chunk)
        if dropped := self._splitter.take_dropped_bytes():
            self.skipped_bytes += dropped
            self.gap = True
        return lines

    def _open(self, *, at_end: bool) -> bool:
        try:
            file = self._path.open("rb")
        except OSError as error:
            self.problem = error.strerror or type(error).__name__
            return False
        if at_end:
            file.seek(0, os.SEEK_END)
            self._skip_incomplete_line(file)
        self.problem = ""
        self._file = file
        return True

    def _skip_incomplete_line(self, file: BinaryIO) -> None:
        """A line that is being written at this moment would be read from its middle."""
        position = file.tell()
        if position:
            file.seek(position - 1)
            if file.read(1) != b"\n":
                self._start_within_line()

    def _skip_if_too_far_behind(self, file: BinaryIO) -> None:
        behind = os.fstat(file.fileno()).st_size - file.tell()
        if behind > self._max_behind_bytes:
            file.seek(-self._chunk_bytes, os.SEEK_END)
            self.skipped_bytes += behind - self._chunk_bytes
            self.gap = True
            self._start_within_line()

    def _start_within_line(self) -> None:
        self._splitter = _LineSplitter(self._max_line_bytes, within_line=True)

    def _rotated(self, file: BinaryIO) -> bool:
        """True if there is more to read at the end of the file: in a new one, or from offset 0."""
        try:
            named, opened = self._path.stat(), os.fstat(file.fileno())
        except OSError:
            return False  # the old file has been renamed, and there is no new one yet
        if (named.st_ino, named.st_dev) != (opened.st_ino, opened.st_dev):
            # The last lines may have been written between our read and this check.
            if opened.st_size > file.tell():
                return True
            self.close()
            self._splitter.reset()
            return self._open(at_end=False)
        if opened.st_size < file.tell():  # truncated
            file.seek(0)
            self._splitter.reset()
            self.gap = True
            return opened.st_size > 0
        return False


class PipeSource:
    """Standard input, read by a thread so that its writer never blocks.

    Args:
        file: to read.
        max_buffered_bytes: what is written while this much waits in memory is skipped.
        max_line_bytes: a longer line is dropped.
    """

    def __init__(
        self,
        file: BinaryIO,
        *,
        max_buffered_bytes: int = MAX_BUFFERED_BYTES,
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        self.skipped_bytes = 0
        self.behind_bytes = 0  # what is in the pipe is read by a thread
        self.gap = False
        self.problem = ""
        self.ended = False
        self.name = "standard input"
        self._max_buffered_bytes = max_buffered_bytes
        self._max_line_bytes = max_line_bytes
        self._chunks: deque[bytes] = deque()
        self._buffered_bytes = 0
        self._splitter = _LineSplitter(max_line_bytes)
        self._lock = threading.Lock()
        self._at_end = False
        self._thread = threading.Thread(
            target=self._pump, args=(file.fileno(),), name="tap-stdin", daemon=True
        )
        self._thread.start()

    def lines(self) -> list[bytes]:
        """Complete lines since the last call."""
        with self._lock:
            chunks, at_end = list(self._chunks), self._at_end
            self._chunks.clear()
            self._buffered_bytes = 0
        lines = []
        for chunk in chunks:
            if chunk == _GAP:
                self._splitter = _LineSplitter(self._max_line_bytes, within_line=True)
            else:
                lines += self._splitter.split(chunk)
            if dropped := self._splitter.take_dropped_bytes():
                with self._lock:
                    self.skipped_bytes += dropped
                self.gap = True
        self.ended = at_end
        return lines

    def close(self) -> None:
        """Do nothing: a blocking read cannot be cancelled; the thread ends with the process."""

    def _pump(self, descriptor: int) -> None:
        while chunk := os.read(descriptor, 1 << 16):
            with self._lock:
                if self._buffered_bytes + len(chunk) > self._max_buffered_bytes:
                    self.skipped_bytes += len(chunk)
                    self.gap = True
                    if not self._chunks or self._chunks[-1] != _GAP:
                        self._chunks.append(_GAP)
                else:
                    self._chunks.append(chunk)
                    self._buffered_bytes += len(chunk)
        with self._lock:
            self._at_end = True
