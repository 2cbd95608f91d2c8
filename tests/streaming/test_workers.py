"""A cluster that fails or hangs stops no other."""

from __future__ import annotations

import threading

from streaming.runtime.threads.workers import AT_ONCE, LateError, Workers
from tests.waiting import until


def test_an_error_of_one_is_given_back_and_the_others_are_done():
    done: set[str] = set()

    def fail() -> None:
        raise ValueError("no")

    failed = Workers(60).run({"a": lambda: done.add("a"), "b": fail, "c": lambda: done.add("c")})
    assert done == {"a", "c"}
    assert {name: str(error) for name, error in failed.items()} == {"b": "no"}


def test_those_that_hang_are_late_and_not_begun_twice():
    go_on, begun, done = threading.Event(), list[str](), list[str]()
    hanging = [f"h{n}" for n in range(AT_ONCE + 1)]

    def hang(name: str) -> None:
        begun.append(name)
        go_on.wait()

    tasks = {name: lambda name=name: hang(name) for name in hanging}
    tasks |= {name: lambda name=name: done.append(name) for name in "abc"}
    workers = Workers(0.2)
    failed = workers.run(tasks)
    assert failed.keys() == {*hanging}
    assert all(isinstance(error, LateError) for error in failed.values())
    assert sorted(done) == ["a", "b", "c"]
    failed = workers.run(tasks)
    assert failed.keys() == {*hanging}
    assert sorted(begun) == hanging
    assert sorted(done) == ["a", "a", "b", "b", "c", "c"]
    go_on.set()
    until(lambda: not workers.run(tasks), 10)
