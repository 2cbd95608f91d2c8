"""Options that the gate and ``plan roll`` share: times, terms, and asking again."""

from __future__ import annotations

import time

import click
import pytest
from click.testing import CliRunner

from streaming.bus.connection import BusError
from streaming.cli.restart_options import ask_until, since_option, terms_options
from streaming.questions.gate.restart import ALLOWABLE
from twin.declarations.table import UNKNOWN
from twin.questions.gate import Terms


@click.command()
@since_option
@terms_options
def command(since_ms: int, terms: Terms) -> None:
    click.echo(since_ms)
    click.echo(terms.margin)
    click.echo(" ".join(sorted(reason.name for reason in terms.allowed)))


def called(*arguments: str) -> list[str]:
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def test_nothing_is_allowed_and_any_time_will_do_by_default():
    assert called() == [str(UNKNOWN), "0", ""]


def test_every_reason_that_may_be_allowed_has_an_option():
    options = ("--allow-rf1", "--allow-rf-min-isr", "--allow-small-quorum", "--cold-ok",
               "--allow-over-capacity", "--allow-full-disk")  # fmt: skip
    _, margin, allowed = called("--margin", "2", *options)
    assert margin == "2"
    assert allowed.split() == sorted(each.reason.name for each in ALLOWABLE.values())


def test_a_time_is_that_of_date_or_now():
    assert called("--since", "1800000000")[0] == "1800000000000"
    before_ms = int(time.time() * 1_000)
    assert before_ms <= int(called("--since", "now")[0]) <= int(time.time() * 1_000)


@pytest.mark.parametrize("text", ["yesterday", "-1"])
def test_another_time_is_refused(text: str):
    assert CliRunner().invoke(command, ["--since", text]).exit_code == 2


def test_a_bus_that_restarts_is_asked_again():
    calls: list[int] = []

    def ask() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise BusError("the broker of the bus restarts")
        return len(calls)

    assert ask_until(ask, bool, wait_ms=10_000) == 2


def test_the_error_of_the_bus_is_shown_when_the_time_is_over():
    def ask() -> int:
        raise BusError("nobody answers")

    with pytest.raises(BusError, match="nobody answers"):
        ask_until(ask, bool, wait_ms=0)


def test_the_last_answer_is_given_when_the_time_is_over():
    assert ask_until(lambda: 0, bool, wait_ms=0) == 0
