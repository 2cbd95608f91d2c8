"""The wheel has all that the programs read, and is the same each time."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def built(folder: Path) -> Path:
    """The wheel, built from the sources as ``pip install`` does."""
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(folder),
         str(ROOT)],
        check=True, timeout=200,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )  # fmt: skip
    [wheel] = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"))


def test_the_same_sources_give_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    one, other = (hashlib.sha256(each.read_bytes()).digest() for each in (wheel, built(tmp_path)))
    assert one == other


def test_it_has_programs_and_what_they_read_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {
        "grafana", "streaming", "twin",
    }  # fmt: skip
    assert "streaming/submit/query.py" in names
    for file in ("jars.xml", "jars.sha256", "jmx/kafka.yml", "alertmanager/alertmanager.yml"):
        assert f"streaming/runtime/deploy/{file}" in names


def test_it_works_where_the_sources_are_not(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    code = (
        "import streaming, sys\n"
        "from streaming.runtime import jars\n"
        "from streaming import submit\n"
        "from pathlib import Path\n"
        "print(jars.declared_in())\n"
        "print(Path(submit.__file__).with_name('query.py'))\n"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "installed")}
    printed, help_text = (
        subprocess.run([sys.executable, *command], cwd=tmp_path, env=environment, check=True,
                       timeout=60, capture_output=True, text=True).stdout
        for command in (["-c", code], ["-m", "streaming", "--help"])
    )  # fmt: skip
    declared, script = (Path(line) for line in printed.splitlines())
    assert declared == tmp_path / "installed/streaming/runtime/deploy"
    assert script.is_file()
    assert "collector" in help_text
