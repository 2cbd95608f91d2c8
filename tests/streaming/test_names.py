"""One word for one thing: no two public classes, and no two modules, have the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]

FLOORS = (
    ("streaming/collector/sources/", "streaming/tap/"),
    ("twin/ingest/",),
    ("twin/rules/", "twin/cluster_rules/"),
    ("twin/questions/", "twin/plans/"),
    ("streaming/questions/", "streaming/plans/"),
    ("streaming/cli/",),
    ("streaming/exporter/routes/",),
    ("streaming/exporter/views/",),
)
"""Where one thing has one name again and again: an observation up to its rule and its view, and a
question from its model to its command, route and view. On a floor a name stands once."""

OF_EACH_PROGRAM = ("__init__", "own_metrics", "commands", "program")


def test_no_two_public_classes_have_one_name():
    places = defaultdict(list)
    for folder in ("twin", "streaming"):
        for file in (ROOT / folder).rglob("*.py"):
            for each in ast.parse(file.read_text()).body:
                if isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
                    places[each.name].append(str(file.relative_to(ROOT)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_a_module_has_a_name_of_its_own_but_for_one_thing_on_several_floors():
    places = defaultdict(list)
    for folder in ("twin", "streaming"):
        for file in (ROOT / folder).rglob("*.py"):
            if file.stem not in OF_EACH_PROGRAM:
                places[file.stem].append(file.relative_to(ROOT).as_posix())
    assert {name: files for name, files in places.items() if not _are_one_thing(files)} == {}


def _are_one_thing(files: list[str]) -> bool:
    floors = [n for file in files for n, floor in enumerate(FLOORS) if file.startswith(floor)]
    return len(files) == 1 or len(files) == len(floors) == len({*floors})
