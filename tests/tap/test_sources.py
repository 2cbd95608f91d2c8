"""Lines as they are written: rotation, truncation, pipes, and who comes too fast."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from streaming.tap import sources
from streaming.tap.sources import FileSource, PipeSource


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "request.log"


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def test_it_begins_at_the_end_or_at_the_beginning(path: Path):
    append(path, b"old\n")
    late, early = FileSource(path), FileSource(path, from_beginning=True)
    append(path, b"new\n")
    assert late.lines() == [b"new"]
    assert early.lines() == [b"old", b"new"]


def test_the_line_it_begins_in_is_left_out(path: Path):
    append(path, b"old\nhal")
    source = FileSource(path)
    append(path, b"f\nnew\n")
    assert source.lines() == [b"new"]


def test_a_line_is_given_when_it_is_whole(path: Path):
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
    assert source.lines() == [b"2", b"3"], "nothing is there by its name yet"
    assert source.lines() == []
    append(path, b"4\n")
    assert source.lines() == [b"4"]
    assert not source.gap


def test_a_file_that_is_emptied_is_read_from_its_beginning(path: Path):
    append(path, b"a long first line\n")
    source = FileSource(path)
    path.write_bytes(b"new\n")
    assert source.lines() == [b"new"]
    assert source.gap, "what was written and cut off meanwhile is not known"


def test_who_is_hopelessly_behind_goes_on_near_the_end(path, monkeypatch):
    monkeypatch.setattr(sources, "CHUNK_BYTES", 40)
    monkeypatch.setattr(sources, "MOST_BEHIND_BYTES", 100)
    source = FileSource(path, from_beginning=True)
    append(path, b"".join(b"line %05d\n" % n for n in range(100)))
    lines = source.lines()
    assert lines[-1] == b"line 00099"
    assert all(len(line) == 10 for line in lines), "the broken one is left out"
    assert source.gap
    assert source.skipped_bytes == 1_100 - 40


def test_a_line_without_an_end_is_given_up(path, monkeypatch):
    monkeypatch.setattr(sources, "LONGEST_LINE_BYTES", 10)
    source = FileSource(path, from_beginning=True)
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
    deadline = time.monotonic() + 10
    while len(lines) < want and not source.ended and time.monotonic() < deadline:
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


def test_a_pipes_writer_never_waits(pipe, monkeypatch):
    monkeypatch.setattr(sources, "MOST_PIPED_BYTES", 1 << 16)
    read, write = pipe
    source = PipeSource(read)
    for n in range(20_000):  # 220 kB, and nobody reads
        write.write(b"line %05d\n" % n)
    deadline = time.monotonic() + 10
    while not source.skipped_bytes and time.monotonic() < deadline:
        time.sleep(0.01)
    lines = eventually(source, 1)
    write.write(b"after\nlast\n")
    write.close()
    lines += eventually(source, 1 << 30)
    assert source.gap
    assert lines[-1] == b"last"
    assert all(len(line) == 10 for line in lines if line not in (b"after", b"last"))
