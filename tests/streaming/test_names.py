"""One word for one thing: no two public classes of the product have the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_two_public_classes_have_one_name():
    places = defaultdict(list)
    for folder in ("twin", "streaming"):
        for file in (ROOT / folder).rglob("*.py"):
            for each in ast.parse(file.read_text()).body:
                if isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
                    places[each.name].append(str(file.relative_to(ROOT)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
