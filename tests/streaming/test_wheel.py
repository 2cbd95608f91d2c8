"""The wheel has all that the programs read, and it and the sdist are the same each time."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOME_TIME_S = "1700000000"


def built(sources: Path, folder: Path) -> dict[str, Path]:
    """The wheel (``.whl``) and the sdist (``.gz``), as pip and a release build them."""
    environment = os.environ | {"SOURCE_DATE_EPOCH": SOME_TIME_S}
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder), "-t", "sdist", "-t",
         "wheel"],
        cwd=sources, check=True, timeout=600, env=environment, capture_output=True,
    )  # fmt: skip
    return {file.suffix: file for file in folder.iterdir()}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return built(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel(files: dict[str, Path]) -> Path:
    return files[".whl"]


def test_the_same_sources_give_the_same_files_elsewhere_and_later(
    files: dict[str, Path], tmp_path: Path
) -> None:
    """From the sdist, unpacked with other times and rights."""
    with tarfile.open(files[".gz"]) as sdist:
        sdist.extractall(tmp_path, filter="data")
    [sources] = tmp_path.iterdir()
    (sources / "PKG-INFO").unlink()
    for file in sources.rglob("*"):
        file.chmod(file.stat().st_mode & 0o700)  # as with another umask
        os.utime(file, (0, 0))
    again = built(sources, tmp_path / "dist")
    for suffix in (".whl", ".gz"):
        one, other = (hashlib.sha256(each[suffix].read_bytes()) for each in (files, again))
        assert one.digest() == other.digest(), suffix


def test_an_index_takes_them(files: dict[str, Path]) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, files.values())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_version_is_that_of_the_project(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        [name] = [n for n in content.namelist() if n.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(content.read(name).decode())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert metadata["Version"] == project["version"]
    assert set(metadata.get_all("Provides-Extra")) == set(project["optional-dependencies"])


def test_images_are_named_after_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    files = [f for f in (ROOT / "deploy").rglob("*") if f.is_file() and f.suffix != ".pyc"]
    files.append(ROOT / ".env")
    pattern = r"(?:kafka-twin(?:-spark|-kafka)?:|_VERSION=|newTag: )(\d+\.\d+\.\d+)"
    named = {f: set(re.findall(pattern, f.read_text())) for f in files}
    assert sum(map(len, named.values())) > 5
    assert {f: versions for f, versions in named.items() if versions - {version}} == {}


def test_it_has_programs_and_what_they_read_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {
        "grafana",
        "streaming",
        "twin",
    }
    assert {"streaming/submit/query.py", "streaming/packing/log4j2.properties"} <= set(names)
    assert "streaming/exporter/console/index.html" in names
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
                       timeout=600, capture_output=True, text=True).stdout
        for command in (["-c", code], ["-m", "streaming", "--help"])
    )  # fmt: skip
    declared, script = (Path(line) for line in printed.splitlines())
    assert declared == tmp_path / "installed/streaming/runtime/deploy"
    assert script.is_file()
    assert "collector" in help_text
