"""The images' versions are those that pyproject.toml allows, and none is left open."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "deploy" / "docker"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINNED = dict(
    line.split("==")
    for line in (DOCKER / "constraints.txt").read_text().splitlines()
    if line and not line.startswith("#")
)


def required(*extras: str) -> list[Requirement]:
    lines = [*PROJECT["dependencies"]]
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize("wanted", required("spark", "archive", "grafana", "iam"), ids=str)
def test_a_pinned_version_is_one_that_the_project_allows(wanted: Requirement):
    assert wanted.specifier.contains(PINNED[wanted.name])


def test_what_dependencies_need_is_pinned_too():
    """As installed here, where the same is needed."""
    needed: set[str] = set()
    due = [r.name for r in required("spark", "archive", "grafana", "iam")]
    for name in due:  # grows as it is gone through
        if canonicalize_name(name) not in needed:
            needed.add(canonicalize_name(name))
            for line in distribution(name).requires or []:
                further = Requirement(line)
                if further.marker is None or further.marker.evaluate({"extra": ""}):
                    due.append(further.name)
    assert needed == {canonicalize_name(name) for name in PINNED}


def test_the_images_ask_for_what_pyproject_lists():
    def printed(*extras: str) -> list[str]:
        command = [sys.executable, str(DOCKER / "requirements.py"), str(ROOT / "pyproject.toml")]
        done = subprocess.run([*command, *extras], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    optional = PROJECT["optional-dependencies"]
    assert printed("grafana", "iam") == (
        PROJECT["dependencies"] + optional["grafana"] + optional["iam"]
    )
    assert printed("spark", "archive") == optional["spark"] + optional["archive"]
