"""Jars: fetched once, never used unless they are what the list says.

These use Ivy and the network as a user does, with a list of one small jar.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from streaming.runtime import jars
from streaming.runtime.jars import JarError
from tests.versions.releases import RELEASES

IVY = """\
<ivy-module version="2.0">
  <info organisation="org.kafka-twin" module="test"/>
  <configurations defaultconfmapping="*->master"><conf name="kafka"/></configurations>
  <dependencies>
    <dependency org="com.yammer.metrics" name="metrics-core" rev="2.2.0" transitive="false"/>
  </dependencies>
</ivy-module>
"""
NAME = "metrics-core-2.2.0.jar"


@pytest.fixture
def declared(tmp_path: Path) -> Path:
    """A list of jars with one entry."""
    folder = tmp_path / "deploy"
    folder.mkdir()
    (folder / "jars.xml").write_text(IVY)
    lines = (jars.declared_in() / "jars.sha256").read_text().splitlines(keepends=True)
    (folder / "jars.sha256").write_text("".join(x for x in lines if x.endswith(f"/{NAME}\n")))
    return folder


@pytest.fixture
def fetched() -> Path:
    """A jar as it was fetched, at the latest now."""
    return next(jar for jar in jars.ensure("kafka") if jar.name == NAME)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy nobody listens at."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1")


def test_a_jar_is_fetched_once(declared: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert jars.ensure("kafka", cache, declared=declared) == [cache / "kafka" / NAME]

    fetched = (cache / "kafka" / NAME).stat()
    jars.ensure("kafka", cache, declared=declared)
    assert (cache / "kafka" / NAME).stat() == fetched
    assert sorted(p.name for p in cache.iterdir()) == [".lock", "kafka"]


def test_a_damaged_jar_is_noticed_and_fetched_again(declared: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    [jar] = jars.ensure("kafka", cache, declared=declared)
    whole = jar.read_bytes()
    jar.write_bytes(whole[:-1] + b"x")
    assert jars.ensure("kafka", cache, declared=declared) == [jar]
    assert jar.read_bytes() == whole


def test_a_jar_that_is_not_the_listed_one_is_named_and_not_kept(
    declared: Path, tmp_path: Path
) -> None:
    sums = declared / "jars.sha256"
    sums.write_text(re.sub("^[0-9a-f]{8}", "00000000", sums.read_text()))
    cache = tmp_path / "cache"
    with pytest.raises(JarError, match=rf"{NAME} is not .*checksum differs.*do not use it"):
        jars.ensure("kafka", cache, declared=declared)
    assert [p.name for p in cache.iterdir()] == [".lock"]


@pytest.mark.usefixtures("no_network")
def test_without_a_network_one_line_says_so(declared: Path, tmp_path: Path) -> None:
    with pytest.raises(JarError, match="is there a network") as error:
        jars.ensure("kafka", tmp_path / "cache", declared=declared)
    assert "\n" not in str(error.value)


def test_no_network_is_needed_once_the_jars_are_there(
    fetched: Path, no_network: None, declared: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "cache" / "kafka"
    folder.mkdir(parents=True)
    (folder / NAME).write_bytes(fetched.read_bytes())
    assert jars.ensure("kafka", tmp_path / "cache", declared=declared) == [folder / NAME]


def test_a_version_that_does_not_exist_is_named(declared: Path, tmp_path: Path) -> None:
    (declared / "jars.xml").write_text(IVY.replace("2.2.0", "9.9.9"))
    with pytest.raises(JarError, match=r"metrics-core;9\.9\.9: not found in the repository"):
        jars.ensure("kafka", tmp_path / "cache", declared=declared)


def test_an_unknown_conf_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JarError, match="there are spark, kafka, jmx, iam"):
        jars.ensure("flink", tmp_path)


def test_checksums_are_written_anew_for_every_conf_that_a_list_has(declared: Path) -> None:
    before = (declared / "jars.sha256").read_text()
    (declared / "jars.sha256").unlink()
    jars.pin(declared)
    assert (declared / "jars.sha256").read_text() == before


LISTS = [jars.declared_in(), *sorted(RELEASES.iterdir())]


@pytest.mark.parametrize("folder", LISTS, ids=lambda folder: folder.name)
def test_the_list_and_the_checksums_name_the_same_files(folder: Path) -> None:
    root = ElementTree.parse(folder / "jars.xml").getroot()
    listed = set()
    for dependency in root.iter("dependency"):
        attributes = dependency.attrib
        assert attributes["transitive"] == "false"
        classifiers = [a.get(f"{{{MAVEN}}}classifier") for a in dependency.iter("artifact")]
        for classifier in classifiers or [None]:
            suffix = f"-{classifier}" if classifier else ""
            listed.add(f"{attributes['conf']}/{attributes['name']}-{attributes['rev']}{suffix}.jar")
    lines = (folder / "jars.sha256").read_text().splitlines()
    assert {line.split()[1] for line in lines} == listed
    assert len(lines) == len(listed)
    assert all(re.fullmatch(r"[0-9a-f]{64}  \S+", line) for line in lines)


MAVEN = "http://ant.apache.org/ivy/maven"


@pytest.mark.parametrize(("version", "fits"), [("17.0.15", True), ("1.8.0_402", False)])
def test_java_is_taken_only_if_it_is_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, fits: bool
) -> None:
    binary = tmp_path / "bin" / "java"
    binary.parent.mkdir()
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    (tmp_path / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    jars.java.cache_clear()
    try:
        if fits:
            assert jars.java() == str(binary)
        else:
            with pytest.raises(JarError, match=r"Java 17 or newer .*version 8.*install openjdk-17"):
                jars.java()
    finally:
        jars.java.cache_clear()
