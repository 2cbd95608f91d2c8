"""Which files of Python the tests of a group are about, by their imports.

These are the tests, the modules of ``tests`` that they import, directly or not, and the modules
that any of these imports itself. What those import in turn is left to the runs that are always
played: it is two thirds of the product for each group, so every change would make all groups due.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import grimp

from tests.marks import marks_written

PACKAGES: Final = ("twin", "streaming", "grafana", "docs", "deploy", "tests")


def files_behind(root: Path, marks: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """By mark, the files that its tests are about: paths from the root."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    tests = [(path, marks_written(path)) for path in sorted((root / "tests").rglob("test_*.py"))]
    behind = {}
    for mark in marks:
        modules = {
            name
            for path, written in tests
            if mark in written
            for name in (_module(root, path), *_loaded_with(root, path))
            if name in graph.modules
        }
        behind[mark] = frozenset(_file(root, name) for name in _subjects(graph, modules))
    return behind


def _subjects(graph: grimp.ImportGraph, tests: set[str]) -> set[str]:
    """Those modules, and what they import; what modules of the tests import as well."""
    found, waiting = set(tests), list(tests)
    while waiting:
        imported = graph.find_modules_directly_imported_by(waiting.pop())
        waiting += [name for name in imported - found if name.startswith("tests.")]
        found |= imported
    return found


def _module(root: Path, path: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts)


def _loaded_with(root: Path, path: Path) -> Iterable[str]:
    """Modules of the ``conftest.py`` files that pytest loads with a file of tests."""
    for folder in path.parents:
        if folder == root:
            return
        if (folder / "conftest.py").exists():
            yield _module(root, folder / "conftest.py")


def _file(root: Path, module: str) -> str:
    parts = Path(*module.split("."))
    is_package = (root / parts / "__init__.py").exists()
    return str(parts / "__init__.py" if is_package else parts.with_suffix(".py"))
