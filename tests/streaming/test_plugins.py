"""Packages from elsewhere: one adds a rule and an observation, others cannot be used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

PLUGIN = Path(__file__).parent / "plugin"
ROOT = Path(__file__).parents[2]

Report = dict[str, Any]


def wheel_of(project: Path, folder: Path) -> Path:
    """A wheel of a project with one module and one entry point, without a build backend."""
    meta = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    name, version = meta["name"].replace("-", "_"), meta["version"]
    info = f"{name}-{version}.dist-info"
    [(group, points)] = meta["entry-points"].items()
    files = {module.name: module.read_text() for module in project.glob("*.py")}
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {meta['name']}\nVersion: {version}\n"
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    listed = "".join(f"{point} = {place}\n" for point, place in points.items())
    files[f"{info}/entry_points.txt"] = f"[{group}]\n{listed}"
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel


def installed(project: Path, folder: Path) -> Path:
    """A folder for PYTHONPATH with the project installed by pip."""
    target = folder / "installed"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-index", "--target", str(target), str(wheel_of(project, folder))]
    subprocess.run([*pip, *offline], check=True, timeout=600)
    return target


def environment(*more: Path) -> dict[str, str]:
    """This one, with those folders on the path of Python."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("KAFKA_TWIN_")}
    return {**inherited, "PYTHONPATH": os.pathsep.join(map(str, (*more, ROOT)))}


def probed(folder: Path, *more: Path) -> Report:
    """The answers of a twin with those folders on its path."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.streaming.plugin_probe", str(folder)], check=False,
        env=environment(*more), capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report: Report = json.loads(done.stdout)
    return report


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Report]:
    """The same cycle with the package, and then, with the state made of it, without."""
    folder = tmp_path_factory.mktemp("plugin")
    target = installed(PLUGIN, folder)
    return probed(folder, target), probed(folder)


def test_its_tables_risks_and_alerts_are_in_the_catalog(both: tuple[Report, Report]) -> None:
    with_package, without = both
    assert {*with_package["tables"]} - {*without["tables"]} == {
        "held_disk_temperatures",
        "leader_disks",
    }
    assert with_package["risks"]["leader_disk_hot"] == "KafkaTwinLeaderDiskHot"
    assert "leader_disk_hot" not in without["risks"]


def test_its_observation_reaches_metrics_risks_and_the_api(both: tuple[Report, Report]) -> None:
    with_package, _ = both
    first, second = with_package["partitions"]
    assert (first["leader"], first["leader_disk_celsius"], first["risks"]) == (1, None, [])
    assert (second["leader"], second["leader_disk_celsius"]) == (2, 71)
    assert second["risks"] == ["leader_disk_hot"]
    text = with_package["metrics"]
    place = 'cluster="c",topic="t",partition="1"'
    assert f"kafka_twin_partition_leader_disk_celsius{{{place}}} 71\n" in text
    hot = 'risk="leader_disk_hot",severity="warn"'
    assert f"kafka_twin_partition_at_risk{{{place},{hot}}} 1\n" in text
    assert f'kafka_twin_partitions_at_risk{{cluster="c",{hot}}} 1\n' in text
    assert "kafka_twin_frames_skipped_total{" not in text
    assert with_package["events"] == []


def test_without_the_package_its_frames_are_skipped_and_counted(
    both: tuple[Report, Report],
) -> None:
    _, without = both
    skipped = 'kafka_twin_frames_skipped_total{cluster="c",kind="disk_temperatures"} 1\n'
    assert skipped in without["metrics"]
    assert [partition["leader"] for partition in without["partitions"]] == [1, 2]
    assert "leader_disk_celsius" not in without["partitions"][0]
    assert without["events"] == []


def test_without_the_package_a_state_is_read_but_for_its_tables(
    both: tuple[Report, Report],
) -> None:
    with_package, without = both
    assert with_package["discarded"] == []
    assert sorted(without["discarded"]) == [
        "held_disk_temperatures: this version does not have it",
        "leader_disks: this version does not have it",
    ]
    assert without["earlier_partitions"] == 2


def a_project(folder: Path, module: str, point: str) -> Path:
    """The project of a package "mine" with the module broken.py."""
    project = folder / "project"
    project.mkdir()
    (project / "broken.py").write_text(module)
    (project / "pyproject.toml").write_text(
        '[project]\nname = "mine"\nversion = "1"\n'
        f'[project.entry-points."kafka_twin.rules"]\nmine = "{point}"\n'
    )
    return project


DECLARES_TWICE = """
from twin.declarations.declare import Alert, risk
from twin.tables.state import Partitions

ALERT = Alert("are here", "{n} of {cluster} are here.", "1m", "1m")

def declared():
    return risk("here", rank=1, severity="info", sentence="it is here", source="", alert=ALERT)

@declared()
def first(partitions: Partitions):
    return partitions.leader >= 0

@declared()
def second(partitions: Partitions):
    return partitions.leader >= 0
"""


DECLARES_A_FIELD = """
from twin.declarations.declare import api_field
from twin.tables.state import Partitions

@api_field("cold_reads", "nothing")
def mine(partitions: Partitions):
    return [None] * len(partitions.leader)
"""


@pytest.mark.parametrize(
    ("module", "point", "why"),
    [
        ("import a_package_that_nobody_has", "broken",
         "entry point kafka_twin.rules:mine of package mine cannot be loaded: "
         "ModuleNotFoundError: No module named 'a_package_that_nobody_has'"),
        ("raise ValueError('first line\\nsecond line')", "broken",
         "entry point kafka_twin.rules:mine of package mine cannot be loaded: "
         "ValueError: first line"),
        ("rules = 3", "broken:rules",
         "entry point kafka_twin.rules:mine of package mine must name a module"),
        (DECLARES_TWICE, "broken",
         "rules of other packages (mine) cannot be used: risk here is declared twice"),
        ("from twin.declarations.table import KeyedTable\n"
         "class Mine(KeyedTable, kind='topics'): pass", "broken",
         "rules of other packages (mine) cannot be used: table topics is declared twice"),
        ("from twin.declarations.table import Observation\n"
         "class Mine(Observation, kind='brokers'): pass",
         "broken",
         "rules of other packages (mine) cannot be used: observation brokers is declared twice"),
        (DECLARES_A_FIELD, "broken",
         "rules of other packages (mine) cannot be used: API field cold_reads is declared twice"),
    ],
    ids=["cannot be imported", "fails on import", "names no module", "declares a risk twice",
         "declares a table of the twin's own", "declares an observation of the twin's own",
         "declares an API field of the twin's own"],
)  # fmt: skip
def test_a_package_that_cannot_be_used_is_one_line(
    tmp_path: Path, module: str, point: str, why: str
) -> None:
    assert probed(tmp_path, installed(a_project(tmp_path, module, point), tmp_path)) == {
        "error": why
    }


@pytest.mark.parametrize("program", ["query", "exporter"])
def test_a_program_that_is_given_such_a_package_ends_with_that_line(
    tmp_path: Path, program: str
) -> None:
    project = a_project(tmp_path, "rules = 3", "broken:rules")
    config = tmp_path / "twin.toml"
    config.write_text('[cluster]\nbootstrap = "127.0.0.1:1"\n[exporter]\nport = 0\n')
    done = subprocess.run(
        [sys.executable, "-m", "streaming", "--config", str(config), program], check=False,
        env=environment(installed(project, tmp_path)), capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        1,
        "Error: entry point kafka_twin.rules:mine of package mine must name a module\n",
    )
