"""One run of the demo for all tests of it."""

from __future__ import annotations

import pytest

from tests.console import browser as browsers
from tests.demo.newcomer import Visit, browse
from tests.demo.playing import Played, play


@pytest.fixture(scope="session")
def newcomer() -> Visit:
    """The visit of somebody at the console, who is there while the demo is played."""
    return Visit()


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory, newcomer: Visit) -> Played:
    """The record of a demo that has played all scripts on one cluster and has ended by itself."""
    has_browser = browsers.CHROMIUM is not None or browsers.IS_NEEDED
    onlookers = [lambda record: browse(record, newcomer)] if has_browser else []
    return play(tmp_path_factory.mktemp("demo"), onlookers)
