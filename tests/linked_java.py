"""A Java with some modules only, as people link it for small images."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from streaming.runtime import jars


def linked(folder: Path, *modules: str) -> Path:
    """The home of a Java with these modules, and those that they need."""
    tool = shutil.which("jlink", path=str(Path(jars.java()).resolve().parent))
    assert tool is not None, "jlink is not beside this Java: a JDK is needed"
    home = folder / "jre"
    subprocess.run([tool, "--add-modules", ",".join(modules), "--output", str(home)], check=True)
    return home
