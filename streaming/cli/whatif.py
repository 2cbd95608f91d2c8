"""``kafka-twin whatif``: the twin's rules over the newest snapshots, with something changed.

Each declared question is a command. It reads the snapshots from the bus, or asks an exporter that
answers the same question; it does not connect to the cluster.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TextIO

import click

from streaming.bus import snapshots
from streaming.bus.bus_topics import own_topics
from streaming.bus.view import ClusterView
from streaming.cli.exporter_client import ask, at_option, at_parameters, note_moment, url_option
from streaming.cli.options import option
from streaming.history.moment import Moment
from streaming.questions import QUESTIONS
from streaming.questions.answer import Answer, WhatIfError
from streaming.questions.question import Question
from streaming.runtime.config import Config
from streaming.runtime.configuration.chosen import Chosen, chosen, naming
from streaming.runtime.terminal import table, width_of

MOST_ROWS: Final = 50


@click.group()
def whatif() -> None:
    """Ask what would happen; change nothing.

    The rules are applied to the newest snapshots as if something were different.
    """


@dataclass(frozen=True, slots=True)
class _Source:
    """The source of answers: the exporter if a URL is given, else the snapshots on the bus."""

    chosen: Chosen
    url: str | None
    at: Moment | None

    def print_answer(self, question: Question, values: Mapping[str, Any], as_json: bool) -> None:
        """Print the answer to the question with these values."""
        moment = at_parameters(self.url, self.at)
        data = (
            self._of_bus(question, values)
            if self.url is None
            else self._of_exporter(self.url, question, values, moment)
        )
        note_moment(data)
        if data["stale"]:
            click.echo(f"note: {data['stale']}", err=True)
        print_answer(question.text(data), as_json, sys.stdout)

    def _of_bus(self, question: Question, values: Mapping[str, Any]) -> dict[str, Any]:
        config = self.chosen.config()
        view = read(config)
        return {
            **question.data(view, values, own_topics(config)),
            "observed_at_ms": view.observed_at_ms,
            "stale": view.why_not_up(time.time_ns() // 1_000_000) or None,
        }

    def _of_exporter(
        self, url: str, question: Question, values: Mapping[str, Any], moment: Mapping[str, str]
    ) -> dict[str, Any]:
        texts = {
            name: [question.parameters[name].write(each) for each in _listed(value)]
            for name, value in values.items()
        }
        return ask(url, f"whatif/{question.name}", {**texts, **moment}, question.form)


def _command(question: Question) -> click.Command:
    """The command of a question, with a flag for each question that is declared as its option."""
    flags = {
        each.name.removeprefix(f"{question.name}-").replace("-", "_"): each
        for each in QUESTIONS.values()
        if each.option_of == question.name
    }

    @click.option("--json", "as_json", is_flag=True, help="Plain data, all rows.")
    @at_option
    @url_option
    @click.pass_obj
    def command(
        chosen: Chosen, /, url: str | None, at: Moment | None, as_json: bool, **options: Any
    ) -> None:
        values = {n: v for n, v in options.items() if v is not None and v is not False and v != ()}
        source = _Source(chosen, url, at)
        for flag in flags.keys() & values.keys():
            if len(values) > 1:
                raise WhatIfError(f"--{flag} cannot be combined with other options")
            source.print_answer(flags[flag], {}, as_json)
            return
        if question.needs_one_of and not any(name in values for name in question.needs_one_of):
            raise WhatIfError(_prompt(question))
        source.print_answer(question, values, as_json)

    made = click.command(question.name, help=question.help)(command)
    own = [option(n, each) for n, each in question.parameters.items() if each.in_command]
    made.params[:0] = own + [
        click.Option([f"--{flag}"], is_flag=True, help=each.help) for flag, each in flags.items()
    ]
    return made


def _prompt(question: Question) -> str:
    """One line that asks for one of the parameters, if at least one is needed."""
    examples = [
        f"--{name.replace('_', '-')} {question.parameters[name].example}"
        for name in question.needs_one_of
    ]
    several = "both" if len(examples) == 2 else "several"
    return f"{question.prompt}: {', '.join(examples)}, or {several}"


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple) else [value]


for _each in QUESTIONS.values():
    if not _each.option_of:
        whatif.add_command(_command(_each))


def read(config: Config) -> ClusterView:
    """The newest snapshot of every shard.

    Raises:
        BusError: the bus cannot be read.
        WhatIfError: it does not hold a snapshot of every shard.
    """
    view = snapshots.newest(config)
    if len(view.shards) < view.shards_expected:
        refused = "; ".join(f"{n} refused: {why}" for why, n in view.snapshots_refused.items())
        raise WhatIfError(
            f"the bus holds snapshots of {len(view.shards)} of {view.shards_expected} shards of "
            f"cluster {config.cluster.name}: do collector and query run? {refused}".rstrip()
        )
    return view


def print_answer(answer: Answer, as_json: bool, out: TextIO) -> None:
    """Print the answer for a person, or as one line of JSON."""
    if as_json:
        out.write(json.dumps(answer.data) + "\n")
        return
    for line in answer.lines:
        out.write(naming(chosen().cluster, line) + "\n")
    if not answer.rows:
        return
    out.write(table(answer.header, answer.rows[:MOST_ROWS], borders=True, width=width_of(out)))
    listed = len(answer.rows)
    total = listed if answer.total is None else answer.total
    if total > MOST_ROWS:
        which = "all of them" if listed == total else f"the worst {listed}"
        out.write(f"{total - MOST_ROWS} more; --json has {which}\n")
