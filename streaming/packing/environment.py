"""A Python environment that works wherever it is unpacked: a launcher and a folder of packages.

A virtual environment has the absolute path of its interpreter, so it works only on similar
machines. The launcher looks for that version of Python on the PATH of the machine where it runs.
"""

from __future__ import annotations

import gzip
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Final

from streaming.packing.distributions import files_of, needed

NAME: Final = "environment"
ARCHIVE: Final = f"{NAME}.tar.gz"
PYTHON: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"

LAUNCHER: Final = f"""\
#!/bin/sh
# The packages beside this file, in the {PYTHON} of this machine.
packages=$(cd "${{0%/*}}/../packages" && pwd) || exit 1
command -v {PYTHON} >/dev/null || {{
  echo "kafka-twin: $(uname -n) has no {PYTHON} on its PATH ($PATH)" >&2
  exit 127
}}
export PYTHONPATH="$packages${{PYTHONPATH:+:$PYTHONPATH}}"
exec {PYTHON} "$@"
"""


def write(folder: Path) -> None:
    """Write the environment into the folder, and beside it as an archive.

    Raises:
        PackingError: an installed distribution cannot be packed.
    """
    root = folder / NAME
    shutil.rmtree(root, ignore_errors=True)
    packages = root / "packages"
    for one in needed():
        with files_of(one) as files:
            for name, file in files.items():
                target = packages / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
    launcher = root / "bin" / "python"
    launcher.parent.mkdir()
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    _archive(root, folder / ARCHIVE)


def _archive(root: Path, file: Path) -> None:
    """The folder's content; the same files give the same bytes."""
    with (
        gzip.GzipFile(file, "wb", compresslevel=1, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as archive,
    ):
        for path in sorted(root.rglob("*")):
            archive.add(path, path.relative_to(root).as_posix(), recursive=False, filter=_plain)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """The entry without the user and the time of this machine."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member
