"""One verdict has one word: on the command line, in the console and in Grafana."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import streaming
from grafana.cluster import DASHBOARD
from tests.grafana.pages import panels
from twin.kafka.election import OUTCOME_WORDS, Outcome
from twin.rules.tiering.coverage import COVERAGE_WORDS, Coverage

CONSOLE = Path(streaming.__file__).parent / "exporter/console/words.js"


def words_of_console(name: str) -> dict[str, str]:
    """An object of words.js, all of whose values are strings."""
    match = re.search(rf"export const {name} = {{(.*?)}};", CONSOLE.read_text(), re.DOTALL)
    assert match is not None
    return dict(re.findall(r'(\w+): "([^"]*)"', match[1]))


@pytest.mark.parametrize(
    ("name", "words", "values"),
    [("OUTCOMES", OUTCOME_WORDS, Outcome), ("COVERAGES", COVERAGE_WORDS, Coverage)],
)
def test_the_console_has_the_words_of_the_command_line(name, words, values):
    assert words_of_console(name) == words
    assert set(words) == {each.name.lower() for each in values}


def test_grafana_has_the_words_of_the_console():
    """Each column of its table of losses asks for an outcome, and is called as the console does."""
    [table] = [
        p for p in panels(DASHBOARD) if p["title"] == "If a broker were lost now: Kafka today"
    ]
    titles = {}
    for part in table["targets"][0]["expr"].split("label_replace(")[1:]:
        [title] = re.findall(r'"column", "([^"]+)"', part)
        titles |= dict.fromkeys(re.findall(r'outcome="(\w+)"', part), title)
    assert titles == {name: words[0].upper() + words[1:] for name, words in OUTCOME_WORDS.items()}
