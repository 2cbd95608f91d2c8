"""Memory of the programs: whose it is, and when it is flat."""

from __future__ import annotations

import os

from tests.soak.memory import Process, parts, processes, thirds


def test_a_programs_memory_is_that_of_all_processes_below_it() -> None:
    running = {
        1: Process(0, 1, b"init"),
        10: Process(1, 100, b"python -m streaming query"),
        11: Process(10, 1_000, b"java org.apache.spark"),
        12: Process(11, 50, b"python -m pyspark.daemon"),
        13: Process(12, 70, b"python -m pyspark.daemon"),
        20: Process(1, 30, b"python -m streaming exporter"),
    }
    assert parts(running, {"query": 10, "exporter": 20, "ended": 99}) == {
        "query": 1_100,
        "query workers": 120,
        "exporter": 30,
    }


def test_this_process_is_found_with_its_memory() -> None:
    running = processes()
    assert running[os.getpid()].parent == os.getppid()
    assert running[os.getpid()].resident_bytes > 1 << 20


def test_memory_is_flat_up_to_fifteen_percent_above_the_middle_third() -> None:
    def judged(last: int) -> bool:
        memory = thirds([1] * 3 + [100] * 3 + [last] * 3)
        assert memory is not None
        return memory.is_flat

    assert judged(50)
    assert judged(115)
    assert not judged(116)


def test_two_samples_are_not_judged() -> None:
    assert thirds([1, 2]) is None
