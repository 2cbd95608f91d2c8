"""The chart as Helm renders it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.dist import CHART
from tests.kubernetes.tools import program

CONFIG: Final = '[cluster]\nname = "west"\nbootstrap = "kafka-0:9092"\n'
ARCHIVED: Final = CONFIG + '[archive]\npath = "s3://bucket/past"\n'
VERSION: Final = "1.34.0"

EVERYTHING: Final[Mapping[str, Any]] = {
    "config": ARCHIVED,
    "archive": {"enabled": True},
    "admission": {"enabled": True},
    "monitoring": {"enabled": True},
    "dashboards": {"enabled": True},
    "networkPolicy": {"egress": {"enabled": True}},
    "exporter": {"ingress": {"enabled": True, "host": "twin.example.org"}},
}
"""Values with which every object is there, but for the Spark operator's."""

Manifest = dict[str, Any]


class RefusedError(Exception):
    """What Helm said."""


def helm(*arguments: str | Path, given: str = "", by: str = "helm") -> str:
    """The output of a Helm command; ``by`` is the program: ``helm`` (4) or ``helm3``.

    Raises:
        RefusedError: it failed.
    """
    done = subprocess.run(
        [program(by), *map(str, arguments)], input=given, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "found symbolic link" not in line]
        raise RefusedError("\n".join(lines) or done.stdout)
    return done.stdout


def text_of(
    values: Mapping[str, Any],
    release: str = "kafka-twin",
    namespace: str = "kafka-twin",
    chart: Path = CHART,
) -> str:
    """The objects of a release as Helm writes them.

    Raises:
        RefusedError: the values are refused.
    """
    return _template(yaml.dump(dict(values)), release, namespace, chart)


@cache
def _template(values: str, release: str, namespace: str, chart: Path) -> str:
    return helm(
        "template", release, chart, "--namespace", namespace, "--kube-version", VERSION,
        "--values", "-", given=values,
    )  # fmt: skip


def rendered(
    values: Mapping[str, Any],
    release: str = "kafka-twin",
    namespace: str = "kafka-twin",
    chart: Path = CHART,
) -> list[Manifest]:
    """The objects of a release.

    Raises:
        RefusedError: the values are refused.
    """
    text = text_of(values, release, namespace, chart)
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]


def named(objects: list[Manifest], kind: str, name: str) -> Manifest:
    """The object of that kind and name."""
    [found] = [o for o in objects if (o["kind"], o["metadata"]["name"]) == (kind, name)]
    return found


def merged(values: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The values with another one at a path, such as ``exporter.service.port``."""
    name, _, rest = path.partition(".")
    inner = merged(values.get(name) or {}, rest, value) if rest else value
    return {**values, name: inner}
