"""A release: ``python -m deploy.dist [--images] [--folder FOLDER]``, by default into dist/.

Wheel, sdist, chart, bill of materials, with ``--images`` the images as ``docker load`` takes them,
and SHA256SUMS of all of it. The same commit gives the same files, except for images.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from deploy import bom

ROOT: Final = Path(__file__).resolve().parents[1]
CHART: Final = ROOT / "deploy" / "helm" / "kafka-twin"
"""Its folders ``dashboards`` and ``rules`` are links, which Helm follows."""

SUMS: Final = "SHA256SUMS"
_IMAGES: Final = {"kafka-twin": "twin", "kafka-twin-spark": "twin-spark"}
"""The target of the Dockerfile by the name of the image."""


class DistError(Exception):
    """A part of the release cannot be made; one line says which, and why."""


def version() -> str:
    """The project's version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def make(folder: Path, with_images: bool = False) -> list[Path]:
    """Write the files of a release into an empty or new folder.

    Raises:
        DistError: a part cannot be made, or the folder has something in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise DistError(f"{folder}: is not empty: remove what is in it, or name another folder")
    at_s = committed_at_s()
    _packages(folder, at_s)
    (folder / f"kafka-twin-{version()}.cdx.json").write_text(bom.text(version(), at_s), "utf-8")
    _chart(folder / f"kafka-twin-{version()}.tgz", at_s)
    if with_images:
        _images(folder)
    files = sorted(folder.iterdir())
    sums = "".join(f"{_digest(file)}  {file.name}\n" for file in files)
    (folder / SUMS).write_text(sums, "utf-8")
    return [*files, folder / SUMS]


def committed_at_s() -> int:
    """When the sources were committed, or SOURCE_DATE_EPOCH where they are in no repository."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    done = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise DistError("the sources are not in a git repository: set SOURCE_DATE_EPOCH")
    return int(done.stdout)


def _packages(folder: Path, at_s: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder), "-t", "sdist", "-t",
         "wheel"],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"SOURCE_DATE_EPOCH": str(at_s)},
    )  # fmt: skip
    if done.returncode:
        raise DistError(f"wheel and sdist cannot be built: {done.stderr.strip()}")


def _chart(file: Path, at_s: int) -> None:
    """Write the package that ``helm package`` would write, with the same bytes each time."""
    with (
        file.open("wb") as raw,
        gzip.GzipFile("", "wb", mtime=at_s, fileobj=raw) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for path in _chart_files(CHART):
            entry = tarfile.TarInfo(f"kafka-twin/{path.relative_to(CHART).as_posix()}")
            entry.size, entry.mtime, entry.mode = path.stat().st_size, at_s, 0o644
            with path.open("rb") as content:
                archive.addfile(entry, content)


def _chart_files(folder: Path) -> Iterator[Path]:
    """The chart's files, those behind its links too; Chart.yaml first, as Helm has it."""
    if folder == CHART:
        yield folder / "Chart.yaml"
    for path in sorted(folder.iterdir()):
        if path.is_dir():  # or a link to one
            yield from _chart_files(path)
        elif path != CHART / "Chart.yaml":
            yield path


def _images(folder: Path) -> None:
    for name, target in _IMAGES.items():
        tag = f"{name}:{version()}"
        _docker("build", "--target", target, "--tag", tag, "--file",
                "deploy/docker/Dockerfile", *_secrets(), ".")  # fmt: skip
        with (folder / f"{name}-{version()}.image.tar.gz").open("wb") as file:
            saved = subprocess.Popen(["docker", "save", tag], stdout=subprocess.PIPE)
            assert saved.stdout is not None
            with gzip.GzipFile("", "wb", compresslevel=1, mtime=0, fileobj=file) as packed:
                while chunk := saved.stdout.read(1 << 20):
                    packed.write(chunk)
            if saved.wait():
                raise DistError(f"image {tag}: docker cannot save it")


def _secrets() -> tuple[str, ...]:
    """The certificates of a proxy that the build goes through, as docker-compose.yml has them."""
    bundle = os.environ.get("CA_BUNDLE") or str(ROOT / "deploy" / "docker" / "no-ca.pem")
    return ("--secret", f"id=ca_bundle,src={bundle}")


def _docker(*arguments: str) -> None:
    try:
        done = subprocess.run(["docker", *arguments], cwd=ROOT, stdout=sys.stderr, check=False)
    except FileNotFoundError:
        raise DistError("--images: docker is not on the PATH") from None
    if done.returncode:
        raise DistError(f"--images: docker {arguments[0]} failed: its last lines say why")


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def main() -> None:
    """Make a release."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", action="store_true", help="build and save the images too")
    parser.add_argument("--folder", type=Path, default=ROOT / "dist", help="where the files go")
    given = parser.parse_args()
    try:
        for file in make(given.folder, given.images):
            print(file)
    except DistError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
