"""A release: all parts have one version, the same commit gives the same files, and sums say so."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from deploy import bom, dist
from deploy.dist import CHART, version

SOME_TIME_S = "1800000000"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", SOME_TIME_S)  # the sources may be in no repository
        return {file.name: file for file in dist.make(tmp_path_factory.mktemp("dist"))}


def test_it_has_wheel_sdist_chart_and_bill_of_one_version(made: dict[str, Path]):
    assert set(made) == {
        f"kafka_twin-{version()}-py3-none-any.whl", f"kafka_twin-{version()}.tar.gz",
        f"kafka-twin-{version()}.tgz", f"kafka-twin-{version()}.cdx.json", dist.SUMS,
    }  # fmt: skip
    with tarfile.open(made[f"kafka-twin-{version()}.tgz"]) as chart:
        about = yaml.safe_load(chart.extractfile("kafka-twin/Chart.yaml"))  # type: ignore[arg-type]
    assert (about["version"], about["appVersion"]) == (version(), version())
    bill = json.loads(made[f"kafka-twin-{version()}.cdx.json"].read_text())
    assert bill["metadata"]["component"]["version"] == version()
    settings = (dist.ROOT / ".env").read_text()
    assert f"\nKAFKA_TWIN_VERSION={version()}\n" in settings  # of the images


def test_the_sums_are_those_of_the_files(made: dict[str, Path]):
    lines = made[dist.SUMS].read_text().splitlines()
    assert {line.split("  ")[1] for line in lines} == made.keys() - {dist.SUMS}
    for line in lines:
        digest, name = line.split("  ")
        assert hashlib.sha256(made[name].read_bytes()).hexdigest() == digest
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "--check", "--strict", dist.SUMS], check=True,
                       cwd=made[dist.SUMS].parent, capture_output=True)  # fmt: skip


def test_the_same_commit_gives_the_same_files(
    made: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", SOME_TIME_S)
    again = {file.name: file for file in dist.make(tmp_path / "again")}
    assert again[dist.SUMS].read_text() == made[dist.SUMS].read_text()


def test_the_chart_has_all_files_and_those_behind_its_links(made: dict[str, Path]):
    with tarfile.open(made[f"kafka-twin-{version()}.tgz"]) as chart:
        names = chart.getnames()
        assert all(member.isfile() for member in chart)
    expected = {"Chart.yaml", "values.yaml", "values.schema.json"}
    expected |= {f"templates/{path.name}" for path in (CHART / "templates").iterdir()}
    for folder in ("dashboards", "rules"):
        expected |= {f"{folder}/{path.name}" for path in (CHART / folder).iterdir()}
    assert set(names) == {f"kafka-twin/{name}" for name in expected}
    assert len(names) == len(expected)


def test_the_bill_is_valid_and_has_every_package_and_jar():
    text = bom.text("1.2.3", 1_800_000_000)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert text == bom.text("1.2.3", 1_800_000_000)
    parts = {part["purl"]: part for part in json.loads(text)["components"]}
    pins = [line for line in bom.CONSTRAINTS.read_text().splitlines() if "==" in line]
    packages = {purl for purl in parts if purl.startswith("pkg:pypi/")}
    assert packages == {f"pkg:pypi/{pin.replace('==', '@').lower()}" for pin in pins}
    sums = [line.split("  ")[0] for line in bom.CHECKSUMS.read_text().splitlines()]
    jars = [part for purl, part in parts.items() if purl.startswith("pkg:maven/")]
    assert sorted(jar["hashes"][0]["content"] for jar in jars) == sorted(sums)


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path):
    (tmp_path / "mine").touch()
    done = subprocess.run([sys.executable, "-m", "deploy.dist", "--folder", str(tmp_path)],
                          cwd=dist.ROOT, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"{tmp_path}: is not empty")


def test_images_without_an_engine_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dist, "_packages", lambda *_: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", SOME_TIME_S)
    with pytest.raises(dist.DistError, match="--images: docker is not on the PATH"):
        dist.make(tmp_path / "dist", with_images=True)
