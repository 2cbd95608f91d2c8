"""An addition takes as many files by hand as the documentation says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from docs import generate as docs

ROOT = Path(__file__).parents[2]
FOLDERS = ("twin", "streaming", "grafana", "docs", "deploy")
"""Where an addition may need an entry. Tests that use it as an example are not part of it."""

GENERATED = (*(f"docs/{name}" for name in docs.PAGES), "grafana/dashboards/", "deploy/")
DESCRIBES = ("docs/architecture.md", "tests/versions/compatibility.json")

NAMED = {"risk", "election_rule"}
"""Decorators whose first argument is the name of a declaration, and of nothing else."""

METRICS = {
    "twin/rules/replication/isr_shrink_near.py": "broker_replicas_near_isr_shrink",
    "twin/cluster_rules/disks/disk_skew.py": "local_log_even_share_ratio",
}
"""The metric that the panel shows, where it does not show the risk."""

TESTS = {
    "twin/rules/replication/isr_shrink_near.py": ["tests/twin/test_isr_shrink_near.py"],
    "twin/cluster_rules/disks/disk_skew.py": ["tests/twin/test_disk_skew.py"],
    "streaming/collector/sources/quorum.py": ["tests/collector/test_quorum.py"],
    "streaming/questions/min_isr.py": ["tests/streaming/test_min_isr.py"],
    "twin/proposals/kip501_election.py": ["tests/twin/test_election_rules.py"],
}
"""The tests of an addition, by the file that is copied for it."""

COLUMNS = "twin/tables/broker_columns.py"


def documented() -> dict[str, int]:
    """The number of files by the file that is copied, from the table of the architecture."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| \[.+?\| `([\w/]+\.py)` \| (\d+): ", text, re.MULTILINE)
    return {path: int(count) for path, count in rows}


def declared(path: str) -> set[str]:
    """The module, its public classes, and the names that its decorators give."""
    tree = ast.parse((ROOT / path).read_text())
    names = {path.removesuffix(".py").replace("/", "."), METRICS.get(path, path)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            names.add(node.name)
        for call in getattr(node, "decorator_list", []):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                first = call.args[0] if call.args else None
                if call.func.id in NAMED and isinstance(first, ast.Constant):
                    names.add(str(first.value))
    return names - {"kip501"}  # the proposal, of which the election rule is one part


def naming(path: str) -> list[str]:
    """The files by hand that name what the file declares, and the file itself."""
    imported = rf"{Path(path).parent.as_posix().replace('/', '.')} import [\w, (\n]*"
    pattern = re.compile(
        "|".join([*(rf"\b{re.escape(name)}\b" for name in declared(path)),
                  rf"{imported}\b{Path(path).stem}\b"])
    )  # fmt: skip
    found = {path}
    for folder in FOLDERS:
        for file in (ROOT / folder).rglob("*"):
            name = file.relative_to(ROOT).as_posix()
            if file.suffix not in (".py", ".md", ".js", ".toml", ".yaml", ".yml", ".json"):
                continue
            if name.startswith(GENERATED) or name in DESCRIBES or "/__pycache__/" in name:
                continue
            if pattern.search(file.read_text()):
                found.add(name)
    return sorted(found)


@pytest.mark.parametrize("path", TESTS)
def test_an_addition_takes_as_many_files_as_documented(path):
    assert len(naming(path)) + len(TESTS[path]) == documented()[path], naming(path)
    assert all((ROOT / test).exists() for test in TESTS[path])


def test_a_column_takes_its_declaration_and_a_source():
    """That it takes no more is in tests/collector/test_new_columns.py."""
    assert documented()[COLUMNS] == 1 + documented()["streaming/collector/sources/quorum.py"]


def test_every_documented_addition_is_counted():
    assert set(documented()) == {*TESTS, COLUMNS}


@pytest.mark.parametrize("top", ["twin", "streaming"])
def test_a_folder_has_about_a_dozen_files_and_says_what_it_is(top):
    for folder in (ROOT / top, *(ROOT / top).rglob("*/")):
        modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert len(modules) <= 15, f"{folder.relative_to(ROOT)} has {len(modules)} files"
        if modules:
            about = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
            assert about, f"{folder.relative_to(ROOT)}/__init__.py does not say what is in it"
