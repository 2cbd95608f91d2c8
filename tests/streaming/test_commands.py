"""Modules that each command imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = """
import sys
from click.testing import CliRunner
from streaming.cli.main import main
assert CliRunner().invoke(main, sys.argv[1:]).exit_code == 0
print(*{name.split(".")[0] for name in sys.modules})
"""


@pytest.mark.parametrize(
    ("command", "needless"),
    [
        ("cluster", {"fastapi", "pyarrow", "pyspark", "twin"}),
        ("gate restart", {"pyspark"}),
        ("tap", {"pyarrow", "pyspark"}),
    ],
)
def test_a_command_does_not_wait_for_the_imports_of_others(command: str, needless: set[str]):
    call = [sys.executable, "-c", LOADED, *command.split(), "--help"]
    loaded = subprocess.run(call, capture_output=True, text=True, timeout=600, check=True).stdout
    assert "streaming" in loaded.split()
    assert needless.isdisjoint(loaded.split())
