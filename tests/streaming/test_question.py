"""A question is declared once: its command, its path and its description follow from that."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Annotated, Any

import click
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.bus.view import ClusterView
from streaming.cli.whatif import whatif
from streaming.exporter.web_application import endpoints
from streaming.history.moment import AT, AT_NAME
from streaming.questions import QUESTIONS
from streaming.questions.answer import Answer
from streaming.questions.parameters import (
    InputParameter,
    duration_ms,
    matches,
    number,
    one_of,
    pattern_of_names,
    size_bytes,
    text,
    yes_or_no,
)
from streaming.questions.question import Question, question, questions_of
from streaming.runtime.quantities import MAX_AMOUNT
from tests.asking import answered
from tests.builders import NOW_MS
from tests.examples import examples
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.declarations.signature import DeclarationError
from twin.engine.shard_state import ShardState
from twin.step import step


def plain(data: Any) -> Answer:
    return Answer(data, [], (), [])


def test_every_question_is_a_path_and_a_command_or_an_option_with_the_same_parameters():
    paths = {each.path: each for each in endpoints(CATALOG)}
    commands = {name: whatif.commands[name] for name in whatif.list_commands(click.Context(whatif))}
    for name, declared in QUESTIONS.items():
        assert paths[f"/api/v1/whatif/{name}"].parameters == {**declared.parameters, AT_NAME: AT}
        if declared.option_of:
            assert name not in commands
            assert name.removeprefix(f"{declared.option_of}-") in options(
                commands[declared.option_of]
            )
        else:
            given = {n for n, each in declared.parameters.items() if each.in_command}
            assert given < options(commands[name])


def options(command: click.Command) -> set[str]:
    return {str(each.name) for each in command.params}


def test_a_parameter_that_cannot_be_read_is_refused_with_its_name():
    def odd(view: ClusterView, *, depth: int = 1) -> dict[str, int]:
        return {}

    with pytest.raises(DeclarationError, match=r"odd: parameter depth is neither ShardState"):
        question("", text=plain)(odd)


def test_two_questions_of_one_name_are_refused():
    modules = [ModuleType("one"), ModuleType("other")]
    for module in modules:
        module.same = question("", text=plain)(same)  # type: ignore[attr-defined]
    with pytest.raises(DeclarationError, match="two questions are called same"):
        questions_of(modules)
    assert list(questions_of(modules[:1])) == ["same"]


def same(state: ShardState) -> dict[str, int]:
    return {}


def declared() -> Question:
    def sizes(
        view: ClusterView,
        *,
        broker: Annotated[int, number("a broker")],
        rate: Annotated[int, size_bytes("bytes a second")] = 1_536 << 10,
        topic: Annotated[str, text("a topic")] = "",
    ) -> dict[str, Any]:
        """Sizes."""
        return {"broker": broker, "rate": rate, "topic": topic}

    return question("sizes of logs", text=plain)(sizes)


def test_defaults_are_those_of_the_signature_and_are_told_unless_they_stand_for_nothing():
    parameters = declared().parameters
    answer = declared().data(ClusterView(), {"broker": 3})
    assert answer == {"broker": 3, "rate": 1_536 << 10, "topic": ""}
    assert parameters["broker"].required
    assert parameters["rate"].in_url == "bytes a second; `1536KiB` by default"
    assert parameters["topic"].in_url == "a topic"


def test_help_and_url_say_what_may_be_repeated_and_what_is_true():
    racks = text("a rack to lose", example="az-a", repeated=True)
    assert racks.in_help == "A rack to lose, e.g. az-a; repeatable."
    assert racks.in_url == "a rack to lose, e.g. `az-a`; may be repeated"
    assert yes_or_no("its disk is empty").in_url == "`true`: its disk is empty"
    assert text("`a.b.c`").in_help == "a.b.c."


KINDS: dict[str, tuple[InputParameter, st.SearchStrategy[Any]]] = {
    "number": (number(""), st.integers(0, 9_999_999_999)),
    "text": (text(""), st.text()),
    "flag": (yes_or_no(""), st.booleans()),
    "name": (one_of("", {"a": 1, "b": 2}), st.sampled_from([1, 2])),
    "duration": (duration_ms(""), st.integers(0, MAX_AMOUNT - 1)),
    "size": (size_bytes(""), st.integers(0, MAX_AMOUNT - 1)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_that_is_written_is_read_as_the_same_value(kind: str):
    parameter, values = KINDS[kind]

    @given(values)
    def holds(value: Any) -> None:
        assert parameter.read(parameter.write(value)) == value

    holds()


def test_a_pattern_is_one_of_whole_names_and_is_matched_in_linear_time():
    names = ["orders", "orders-eu", "old-orders", "orders\n"]
    assert matches("orders", names).tolist() == [True, False, False, False]
    assert matches("orders|old.*", names).tolist() == [True, False, True, False]
    assert matches(".*", []).tolist() == []
    assert not matches("(a*)*(a*)*b", ["a" * 249]).any()


@pytest.mark.parametrize("form", ["(", "a{2,1}", "(?=a)", "\\", "a)|(b", r"\Qa"])
def test_what_is_no_pattern_is_one_line(form: str):
    with pytest.raises(ValueError, match=r"is not a regular expression$"):
        pattern_of_names("topics").read(form)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("lose", {"broker": [1, 4]}),
        ("threshold", {"ms": 600_000, "bytes": 1 << 20, "grid": True}),
        ("bootstrap", {"broker": 2}),
        ("retention", {"local_ms": 60_000}),
        ("min-isr", {"min_isr": 3}),
    ],
)
@examples(20)
@given(seed=st.integers(0, 20), of=st.lists(st.integers(0, 4), min_size=7, max_size=7))
def test_an_answer_is_the_same_for_any_number_of_shards(
    name: str, values: dict[str, Any], seed: int, of: list[int]
):
    whole = a_shard(seed)
    shard_of = np.resize(of, whole.partitions)
    parts = [whole.take(np.flatnonzero(shard_of == shard)) for shard in range(max(of) + 1)]
    one, several = answered(name, whole, **values), answered(name, *parts, **values)
    assert several == one


@cache
def a_shard(seed: int) -> ShardState:
    shape = Shape(topics=3, partitions=12, groups=2)
    state = ShardState.empty(CATALOG, "sim", 0, 1)
    for frames in SimulatedShard(shape, seed).run(4, NOW_MS):
        state, _ = step(state, frames, frames[0].header.observed_at_ms)
    return state
