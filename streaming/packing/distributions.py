"""Which installed distributions the query needs, and their files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, PackageNotFoundError, distribution, entry_points
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from streaming.runtime.errors import UserError
from streaming.runtime.plugins import GROUP

PROJECT: Final = "kafka-twin"
OF_THE_PLATFORM: Final = frozenset({"pyspark", "py4j"})
"""Spark of the platform includes them, in its own version."""

_BUILD_WITHIN_S: Final = 300
_LEFT_OUT: Final = frozenset({"tests", "test", "__pycache__"})
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")

Files = dict[PurePosixPath, Path]
"""The file, by its path below a folder of packages."""


class PackingError(UserError):
    """The environment cannot be packed; the message says in one line what to do."""


def needed() -> list[Distribution]:
    """The project with the extra ``spark``, packages with rules, and all their requirements.

    In order of name, without those of the platform. Markers are not evaluated: a requirement that
    is not installed here is not needed.

    Raises:
        PackingError: the extra is not installed.
    """
    due = [PROJECT, *(point.dist.name for point in entry_points(group=GROUP) if point.dist)]
    by_name: dict[str, Distribution] = {}
    for name in due:  # grows during the loop
        if _canonical(name) in by_name.keys() | OF_THE_PLATFORM:
            continue
        try:
            one = distribution(name)
        except PackageNotFoundError:
            continue
        by_name[_canonical(name)] = one
        due += _required(one)
    if "pandas" not in by_name or PROJECT not in by_name:
        raise PackingError("the extra spark is not installed: pip install 'kafka-twin[spark]'")
    return [by_name[name] for name in sorted(by_name)]


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _required(one: Distribution) -> Iterator[str]:
    """Names of its requirements; for the project, with those of the extra ``spark``."""
    for line in one.requires or ():
        requirement, _, marker = line.partition(";")
        match = _NAME.match(requirement.strip())
        is_needed = "extra" not in marker or (
            _canonical(one.name) == PROJECT and re.search(r"""['"]spark['"]""", marker)
        )
        if match and is_needed:
            yield match[0]


@contextmanager
def files_of(one: Distribution) -> Iterator[Files]:
    """Its files without tests, while the block runs. For an editable one, builds a wheel.

    Raises:
        PackingError: it has no list of files, or its wheel cannot be built.
    """
    source = _source(one)
    if source is not None:
        with tempfile.TemporaryDirectory(prefix="kafka-twin-") as folder:
            yield _built(one.name, source, Path(folder))
        return
    if one.files is None:
        raise PackingError(
            f"{one.name}: nothing lists its files; install kafka-twin with pip in a virtual "
            "environment and run this command there"
        )
    yield {
        PurePosixPath(file): Path(str(file.locate()))
        for file in one.files
        if _is_packed(PurePosixPath(file))
    }


def _is_packed(file: PurePosixPath) -> bool:
    """Whether the file is packed: not tests, and not scripts outside the folder of packages."""
    return ".." not in file.parts and not _LEFT_OUT.intersection(file.parts[:-1])


def _source(one: Distribution) -> Path | None:
    """The folder of an editable installation, else None."""
    url = json.loads(one.read_text("direct_url.json") or "{}")
    if not url.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(url["url"]).path))


def _built(name: str, source: Path, folder: Path) -> Files:
    """Build a wheel from these sources; its files."""
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder)]
    done = subprocess.run(
        [*command, str(source)], capture_output=True, text=True, timeout=_BUILD_WITHIN_S
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        why = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise PackingError(f"{name}: no wheel can be built of {source}: {why}")
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(folder / "wheel")
    return {
        PurePosixPath(path.relative_to(folder / "wheel").as_posix()): path
        for path in (folder / "wheel").rglob("*")
        if path.is_file()
    }
