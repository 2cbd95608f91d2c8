"""Prints what pyproject.toml requires, one line each, and what the extras named require."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(sys.argv[1]).read_text())["project"]
extras = sys.argv[2:]
# Those of the extra spark are installed on top of the others.
lines = [] if "spark" in extras else list(project["dependencies"])
for extra in extras:
    lines += project["optional-dependencies"][extra]
print("\n".join(lines))
