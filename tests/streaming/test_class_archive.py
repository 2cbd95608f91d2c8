"""CDS archives are used where they fit, and Java goes on without one that does not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from streaming.lab import class_archive
from streaming.runtime import jars

FROM_ARCHIVE = "source: shared objects file (top)"


def ivy(*options: str) -> str:
    """The output of a JVM that runs ``ivy -version`` with these options."""
    command = [jars.java(), *jars.QUICK_START, *options, "-cp", str(jars._ivy_jar())]
    done = subprocess.run(
        [*command, "org.apache.ivy.Main", "-version"], capture_output=True, text=True, check=True
    )
    return done.stdout + done.stderr


def test_a_jvm_loads_the_classes_of_an_earlier_one(tmp_path: Path) -> None:
    archive = tmp_path / "ivy.jsa"
    assert class_archive.using(archive) == ()
    plain = ivy()
    assert ivy(*class_archive.making(archive)) == plain
    assert ivy(*class_archive.using(archive)) == plain
    loaded = ivy(*class_archive.using(archive), "-Xlog:class+load").splitlines()
    assert [line for line in loaded if "org.apache.ivy.Main " in line and FROM_ARCHIVE in line]


def test_an_archive_that_does_not_fit_is_not_used_and_nothing_is_said(tmp_path: Path) -> None:
    archive = tmp_path / "ivy.jsa"
    archive.write_bytes(b"no archive" * 1_000)
    assert ivy(*class_archive.using(archive)) == ivy()


def test_an_archive_is_of_one_java_and_of_its_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_TWIN_CACHE", str(tmp_path))
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"a")
    before = class_archive._path("kafka", [jar])
    assert before.parent == tmp_path / "classes"
    assert class_archive._path("kafka", [jar]) == before
    jar.write_bytes(b"other")
    assert class_archive._path("kafka", [jar]) != before
