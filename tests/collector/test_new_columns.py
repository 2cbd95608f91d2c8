"""A column that is declared is everywhere, with its fill, before any source reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_a_new_column_needs_its_declaration_alone() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.collector.new_columns"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    fills = {"brokers": [-7], "configs": [-7], "replicas": [-7]}
    assert json.loads(ran.stdout.splitlines()[-1]) == dict.fromkeys(
        ("builders", "codec", "simulator", "collector"), fills
    )
