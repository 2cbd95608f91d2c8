"""SIGTERM and SIGINT end a program in good order."""

import os
import signal
import threading
from collections import Counter

import pytest

from streaming.runtime.stop import SIGNALS, on_stop_signal


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_sets_the_event(number: signal.Signals):
    stop = threading.Event()
    with on_stop_signal(stop):
        assert not stop.is_set()
        os.kill(os.getpid(), number)
        assert stop.wait(60)


def test_each_signal_calls_the_function():
    calls: Counter[str] = Counter()
    with on_stop_signal(lambda: calls.update(["stop"])):
        for number in SIGNALS:
            signal.raise_signal(number)
    assert calls["stop"] == len(SIGNALS)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_handlers_of_before_are_back_after_the_block(number: signal.Signals):
    before = signal.getsignal(number)
    with on_stop_signal(threading.Event()):
        assert signal.getsignal(number) != before
    assert signal.getsignal(number) == before


def test_they_are_back_after_an_error_too():
    before = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(ZeroDivisionError), on_stop_signal(threading.Event()):
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_the_inner_of_two_blocks_takes_the_signal():
    outer, inner = threading.Event(), threading.Event()
    with on_stop_signal(outer):
        with on_stop_signal(inner):
            signal.raise_signal(signal.SIGTERM)
        assert inner.is_set()
        assert not outer.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert outer.is_set()


def test_in_another_thread_the_handlers_stay_as_they_are():
    before = signal.getsignal(signal.SIGTERM)
    inside: list[object] = []

    def enter() -> None:
        with on_stop_signal(threading.Event()):
            inside.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert inside == [before]
