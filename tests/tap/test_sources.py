"""Sources of lines: rotation, truncation, pipes, and writers that are too fast."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from streaming.runtime.deadline import Deadline
from streaming.tap.sources import FileSource, PipeSource


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "request.log"


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def test_a_file_is_read_from_its_end_or_from_its_beginning(path: Path):
    append(path, b"old\n")
    late, early = FileSource(path), FileSource(path, from_beginning=True)
    append(path, b"new\n")
    assert late.lines() == [b"new"]
    assert early.lines() == [b"old", b"new"]


def test_an_incomplete_line_at_the_start_is_skipped(path: Path):
    append(path, b"old\nhal")
    source = FileSource(path)
    append(path, b"f\nnew\n")
    assert source.lines() == [b"new"]


def test_a_line_is_returned_once_it_is_complete(path: Path):
    source = FileSource(path, from_beginning=True)
    assert source.problem.endswith("No such file or directory")
    append(path, b"one\ntw")
    assert source.lines() == [b"one"]
    assert source.problem == ""
    append(path, b"o\n")
    assert source.lines() == [b"two"]
    assert source.lines() == []


def test_a_renamed_file_is_read_to_its_end_and_then_the_new_one(path: Path):
    append(path, b"1\n")
    source = FileSource(path, from_beginning=True)
    assert source.lines() == [b"1"]
    append(path, b"2\n")
    path.rename(path.with_suffix(".1"))
    append(path.with_suffix(".1"), b"3\n")
    assert source.lines() == [b"2", b"3"], "there is no new file yet"
    assert source.lines() == []
    append(path, b"4\n")
    assert source.lines() == [b"4"]
    assert not source.gap


def test_a_truncated_file_is_read_from_its_beginning(path: Path):
    append(path, b"a long first line\n")
    source = FileSource(path)
    path.write_bytes(b"new\n")
    assert source.lines() == [b"new"]
    assert source.gap, "lines written before the truncation may be lost"


def test_a_reader_too_far_behind_goes_on_near_the_end(path: Path):
    source = FileSource(path, from_beginning=True, chunk_bytes=40, max_behind_bytes=100)
    append(path, b"".join(b"line %05d\n" % n for n in range(100)))
    lines = source.lines()
    assert lines[-1] == b"line 00099"
    assert all(len(line) == 10 for line in lines), "the line that was cut is skipped"
    assert source.gap
    assert source.skipped_bytes == 1_100 - 40


def test_a_line_that_is_too_long_is_skipped(path: Path):
    source = FileSource(path, from_beginning=True, max_line_bytes=10)
    append(path, b"x" * 50)
    assert source.lines() == []
    assert (source.skipped_bytes, source.gap) == (50, True)


@pytest.fixture
def pipe():
    read, write = os.pipe()
    with os.fdopen(read, "rb") as reader, os.fdopen(write, "wb", buffering=0) as writer:
        yield reader, writer


def eventually(source: PipeSource, want: int) -> list[bytes]:
    lines: list[bytes] = []
    deadline = Deadline.after_s(100)
    while len(lines) < want and not source.ended and not deadline.is_over:
        lines += source.lines()
        time.sleep(0.01)
    return lines


def test_a_pipe_ends_with_its_writer(pipe):
    read, write = pipe
    source = PipeSource(read)
    write.write(b"one\ntwo\nrest")
    assert eventually(source, 2) == [b"one", b"two"]
    write.close()
    assert eventually(source, 1) == []
    assert source.ended


def test_a_line_of_a_pipe_that_is_too_long_is_skipped_and_counted(pipe):
    read, write = pipe
    source = PipeSource(read, max_line_bytes=10)
    write.write(b"x" * 50)
    write.close()
    assert eventually(source, 1) == []
    assert (source.skipped_bytes, source.gap) == (50, True)


def test_the_writer_of_a_pipe_never_blocks(pipe):
    read, write = pipe
    source = PipeSource(read, max_buffered_bytes=1 << 16)
    for n in range(20_000):  # 220 kB, and nobody reads
        write.write(b"line %05d\n" % n)
    deadline = Deadline.after_s(100)
    while not source.skipped_bytes and not deadline.is_over:
        time.sleep(0.01)
    lines = eventually(source, 1)
    write.write(b"after\nlast\n")
    write.close()
    lines += eventually(source, 1 << 30)
    assert source.gap
    assert lines[-1] == b"last"
    assert all(len(line) == 10 for line in lines if line not in (b"after", b"last"))
