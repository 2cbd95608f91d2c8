"""Prints what pyproject.toml requires, one line each: its dependencies, and those of the extras named."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(sys.argv[1]).read_text())["project"]
extras = sys.argv[2:]
lines = [] if "spark" in extras else list(project["dependencies"])
for extra in extras:
    lines += project["optional-dependencies"][extra]
print("\n".join(lines))
