"""The order of a whole run: what measures times first, what waits for another test's end last."""

from __future__ import annotations

import pytest

_ORDER = ("tests/bench/", "tests/containers/", "tests/cluster/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bench, containers, brokers, the demo; the others run while the demo's last alert waits."""

    def place(item: pytest.Item) -> int:
        if item.get_closest_marker("last"):
            return len(_ORDER) + 2
        if "test_demo.py" in item.nodeid:
            return len(_ORDER)
        starts = (n for n, folder in enumerate(_ORDER) if item.nodeid.startswith(folder))
        return next(starts, len(_ORDER) + 1)

    items.sort(key=place)
