"""A question is declared once: a function whose signature says what it reads and what is given.

    @question("with another local retention: ...", text=_text)
    def retention(
        view: ClusterView, *,
        local_ms: Annotated[int, duration_ms("`local.retention.ms`", example="1h")] = UNKNOWN,
    ) -> RetentionEffect: ...

Its name is that of the command and of the path, its docstring is the help of the command, and its
return type is the form of the answer. A positional parameter is one of

    ShardState      one shard: the function is called for each, and its answers add up (``AddsUp``)
    ClusterView     all shards, where their answers do not add up
    OwnTopics       names of the twin's topics, if the bus is on the cluster that is watched

A keyword parameter is what a user gives, as ``arguments`` explains.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from types import ModuleType
from typing import Annotated, Any, Final

import msgspec

from streaming.bus.view import ClusterView
from streaming.questions.answer import Answer
from streaming.questions.arguments import Signature, signature_of
from streaming.questions.parameters import InputParameter
from twin.declarations.signature import DeclarationError
from twin.engine.shard_state import ShardState

OwnTopics = Annotated[Collection[str], "names of the twin's topics"]

_READS: Final = (ShardState, ClusterView, OwnTopics)


@dataclass(frozen=True, slots=True)
class Question:
    """A declared question. ``question`` explains the fields."""

    name: str
    summary: str
    help: str
    function: Callable[..., Any]
    text: Callable[[Mapping[str, Any]], Answer]
    signature: Signature
    needs_one_of: Sequence[str]
    prompt: str
    refusals: Mapping[int, str]
    option_of: str

    @property
    def form(self) -> Any:
        """The type of its answers."""
        return self.signature.returns

    @property
    def parameters(self) -> Mapping[str, InputParameter]:
        """What a user gives."""
        return self.signature.given

    def data(
        self, view: ClusterView, values: Mapping[str, Any], own_topics: Collection[str] = ()
    ) -> dict[str, Any]:
        """The answer as plain data.

        Args:
            view: the newest snapshots of all shards.
            values: the given values by name, parsed by its parameters.
            own_topics: see ``OwnTopics``.

        Raises:
            WhatIfError: there is no answer; one line says why.
        """
        given, reads = self.signature.arguments(values), self.signature.reads

        def answer(state: ShardState | None) -> Any:
            there = {ShardState: state, ClusterView: view, OwnTopics: own_topics}
            return self.function(*(there[kind] for kind in reads), **given)

        of_shards = ShardState in reads
        result = reduce(add, map(answer, view.states)) if of_shards else answer(None)
        plain: dict[str, Any] = msgspec.to_builtins(result, str_keys=True)
        return plain


def question(
    summary: str,
    *,
    text: Callable[[Mapping[str, Any]], Answer],
    needs_one_of: Sequence[str] = (),
    prompt: str = "",
    refusals: Mapping[int, str] | None = None,
    option_of: str = "",
) -> Callable[[Callable[..., Any]], Question]:
    """Declare a question.

    Args:
        summary: what the path answers, for the description of the API.
        text: makes the answer for a person, of the plain data alone: an exporter may have sent it.
        needs_one_of: names of parameters of which at least one must be given.
        prompt: asks a user for one of them: ``give a threshold``.
        refusals: statuses beside 200, and 400 for parameters, and why.
        option_of: the question of whose command it is a flag, named by its own words behind that
            name; then it is not a command.

    Raises:
        DeclarationError: a parameter is none of the kinds above.
    """

    def declare(function: Callable[..., Any]) -> Question:
        return Question(
            function.__name__.replace("_", "-"), summary, inspect.getdoc(function) or "", function,
            text, signature_of(function, _READS), needs_one_of, prompt, refusals or {}, option_of,
        )  # fmt: skip

    return declare


def questions_of(modules: Iterable[ModuleType]) -> dict[str, Question]:
    """The questions that modules declare, by name.

    Raises:
        DeclarationError: two have one name.
    """
    questions: dict[str, Question] = {}
    for module in modules:
        for each in vars(module).values():
            if isinstance(each, Question) and questions.setdefault(each.name, each) is not each:
                raise DeclarationError(f"two questions are called {each.name}")
    return questions
