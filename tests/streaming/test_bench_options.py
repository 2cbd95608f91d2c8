"""``python -m tests.bench`` explains itself, and runs only what is named."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.bench.__main__ import PARTS, main
from tests.bench.collector import _rss_peak_megabytes


def test_help_names_every_part_and_runs_none(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "figure" not in text.replace("Figures", "")
    assert all(f"  {name} " in text for name in PARTS)


@pytest.mark.parametrize(
    "arguments", [["nothing"], ["step", "--fast"], ["step", "--against", "/nowhere"]]
)
def test_an_unknown_part_option_or_build_is_refused_before_anything_runs(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().out == ""


def test_the_peak_of_the_collector_is_without_what_its_parent_used():
    ballast = bytearray(300 << 20)
    ballast[:: 4 << 10] = b"x" * len(ballast[:: 4 << 10])
    probe = "from tests.bench.collector import _rss_peak_megabytes as p; print(p())"
    printed = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True)
    assert _rss_peak_megabytes() > 300
    assert float(printed.stdout) < 250
    assert len(ballast) == 300 << 20
