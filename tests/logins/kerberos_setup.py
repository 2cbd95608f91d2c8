"""Installs the Python package gssapi for the tests of Kerberos, which MIT's headers are needed for.

``python -m tests.logins.kerberos_setup`` is a run of its own: the project's set-up works without a
compiler and without Kerberos.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

_PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local")
_PACKAGES: Final = "apt-get install krb5-kdc krb5-admin-server"
_TO_BUILD: Final = ("krb5-config", "gcc")
_TO_BUILD_PACKAGES: Final = "apt-get install libkrb5-dev gcc"


def program(name: str) -> str:
    """The path of a program, empty if it is missing; Debian's KDC is in a folder of root's PATH."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin") or ""


def lacking() -> str:
    """What the tests of Kerberos lack here, in one line; empty if nothing."""
    if missing := [name for name in _PROGRAMS if not program(name)]:
        return f"Kerberos cannot be tested without {', '.join(missing)}: {_PACKAGES}"
    if importlib.util.find_spec("gssapi") is None:
        return (
            "Kerberos cannot be tested without the Python package gssapi: "
            "python -m tests.logins.kerberos_setup installs it"
        )
    return ""


def main() -> str:
    """Install what is missing; returns why it cannot be, in one line."""
    if importlib.util.find_spec("gssapi") is None:
        if missing := [name for name in _TO_BUILD if not program(name)]:
            return f"gssapi cannot be built without {', '.join(missing)}: {_TO_BUILD_PACKAGES}"
        declared = tomllib.loads(Path("pyproject.toml").read_text())
        wanted = declared["project"]["optional-dependencies"]["kerberos"]
        uv = Path(sys.executable).with_name("uv")
        install = (
            [str(uv), "pip", "install", "-q", "--no-cache", "--python", sys.executable]
            if uv.exists()
            else [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        )
        done = subprocess.run([*install, *wanted])
        if done.returncode:
            return "gssapi could not be installed"
        importlib.invalidate_caches()
    return lacking()


if __name__ == "__main__":
    sys.exit(main() or None)
