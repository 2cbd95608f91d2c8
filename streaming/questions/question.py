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

A keyword parameter is ``Annotated[T, InputParameter]``: what a user gives. Without a default it is
required. A name that Python has for itself has an underscore behind it.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from keyword import iskeyword
from operator import add
from types import ModuleType
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import msgspec

from streaming.bus.view import ClusterView
from streaming.questions.answer import Answer
from streaming.questions.parameters import InputParameter
from twin.declarations.signature import DeclarationError, name_of
from twin.declarations.table import UNKNOWN
from twin.engine.state import ShardState

OwnTopics = Annotated[Collection[str], "names of the twin's topics"]

_READS: Final = (ShardState, ClusterView, OwnTopics)


@dataclass(frozen=True, slots=True)
class Question:
    """A declared question. ``question`` explains the fields."""

    name: str
    summary: str
    help: str
    function: Callable[..., Any]
    form: Any
    text: Callable[[Mapping[str, Any]], Answer]
    reads: Sequence[Any]
    parameters: Mapping[str, InputParameter]
    needs_one_of: Sequence[str]
    prompt: str
    refusals: Mapping[int, str]
    option_of: str

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
        given = {f"{n}_" if _is_taken(n) else n: value for n, value in values.items()}

        def answer(state: ShardState | None) -> Any:
            there = {ShardState: state, ClusterView: view, OwnTopics: own_topics}
            return self.function(*(there[kind] for kind in self.reads), **given)

        of_shards = ShardState in self.reads
        result = reduce(add, map(answer, view.states)) if of_shards else answer(None)
        plain: dict[str, Any] = result
        return plain if isinstance(result, dict) else msgspec.to_builtins(result, str_keys=True)


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
        hints = get_type_hints(function, include_extras=True)
        reads, parameters = [], {}
        for each in inspect.signature(function).parameters.values():
            hint = hints.get(each.name)
            if each.kind is not each.KEYWORD_ONLY and hint in _READS:
                reads.append(hint)
            elif each.kind is each.KEYWORD_ONLY and _is_given(hint):
                parameters[each.name.rstrip("_")] = _with_default(get_args(hint)[1], each.default)
            else:
                raise DeclarationError(
                    f"{name_of(function)}: parameter {each.name} is neither ShardState, "
                    "ClusterView nor OwnTopics, nor a keyword with Annotated[..., InputParameter]"
                )
        return Question(
            function.__name__.replace("_", "-"), summary, inspect.getdoc(function) or "", function,
            hints.get("return"), text, reads, parameters, needs_one_of, prompt, refusals or {},
            option_of,
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


def _is_taken(name: str) -> bool:
    """Python has the name for itself."""
    return hasattr(builtins, name) or iskeyword(name)


def _is_given(hint: Any) -> bool:
    return get_origin(hint) is Annotated and isinstance(get_args(hint)[1], InputParameter)


def _with_default(parameter: InputParameter, default: Any) -> InputParameter:
    """The parameter with the default of a signature, unless it has one for URLs."""
    if default is inspect.Parameter.empty:
        return replace(parameter, required=True)
    is_nothing = default is None or default is False or default in (UNKNOWN, "", ())
    if is_nothing or parameter.default is not None:
        return parameter
    return replace(parameter, default=default)
