"""``kafka-twin spark-package``: the folder from which spark-submit starts the query."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from streaming.packing import environment
from streaming.packing.distributions import PackingError
from streaming.packing.submit_lines import JARS, LOGGING, SCRIPT, Package, kind, line
from streaming.runtime import jars

_LOGGING: Final = Path(__file__).with_name(LOGGING)
_SUBMIT: Final = Path(__file__).parents[1] / "submit" / SCRIPT
"""The script is copied, not imported: importing it would run the command line."""


def write(folder: Path, master: str, config: Path | None, further: Sequence[Path] = ()) -> str:
    """Write the package into the folder; return the spark-submit line that uses it.

    For Kubernetes nothing is written, since the image has all files.

    Args:
        folder: created if it is missing. Files of an earlier package are replaced.
        master: as for spark-submit.
        config: twin.toml.
        further: jars that its login needs, beside those of the connector.

    Raises:
        PackingError: there is no such master, or something cannot be packed.
        JarError: a jar is missing and cannot be fetched.
    """
    package = Package(folder.absolute(), (), config.absolute() if config else None)
    if kind(master) == "k8s":
        return line(master, package)
    files = [*jars.ensure("spark"), *further]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        environment.write(folder)
        _replace(folder / JARS, files)
        shutil.copyfile(_SUBMIT, folder / SCRIPT)
        shutil.copyfile(_LOGGING, folder / LOGGING)
    except OSError as error:
        raise PackingError(f"{error.filename or folder}: {error.strerror}") from None
    names = [file.name for file in files]
    return line(master, Package(package.folder, names, package.config))


def _replace(folder: Path, files: list[Path]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for file in files:
        shutil.copyfile(file, folder / file.name)
