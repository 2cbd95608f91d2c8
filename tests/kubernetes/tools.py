"""Helm, kubectl and a Kubernetes API server, built with Go from their published modules.

``python -m tests.kubernetes.tools`` builds what is not there yet: a minute for Helm, ten minutes of
CPU time for the API server; with names of programs, it builds those. They are kept in a folder of
the user's cache, whose name has their versions. Upstream publishes no such binaries where only
registries of packages are reached.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

HELM: Final = "3.22.0"
KUBERNETES: Final = "1.36.3"
PROMETHEUS_OPERATOR: Final = "0.85.0"

_API_SERVER: Final = """\
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
"""
_KUBECTL: Final = """\
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() { os.Exit(cli.Run(cmd.NewDefaultKubectlCommand())) }
"""
_STRIPPED: Final = "-s -w"
_VERSION: Final = f"-X k8s.io/component-base/version.gitVersion=v{KUBERNETES}"
"""Without it a server says that it is version 0, which is too old for the chart."""

_QUICK: Final = ("-gcflags", "all=-N -l")
"""Without optimising, Kubernetes takes two thirds of the time to build."""


class BuildError(Exception):
    """Go cannot build it; its last lines say why."""


def folder() -> Path:
    """Where the programs of these versions are kept."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    content = f"{HELM} {KUBERNETES} {_API_SERVER} {_KUBECTL} {_QUICK}".encode()
    return cache / "kafka-twin" / f"kubernetes-{hashlib.sha256(content).hexdigest()[:12]}"


def program(name: str) -> str:
    """The path of a program; where it is not, the test is skipped, and says how to build it."""
    if found := shutil.which(name):
        return found
    path = folder() / name
    if not path.exists():
        pytest.skip(f"{name} is not there: with Go, python -m tests.kubernetes.tools builds it")
    return str(path)


def build(name: str) -> None:
    """Build a program into the folder; a program is there or is not, never a part of one."""
    folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder()) as made:
        _BUILDS[name](Path(made))
        (Path(made) / name).replace(folder() / name)


def module_folder(module: str, version: str) -> Path:
    """Where Go keeps the source of a module, which it downloads if it must."""
    with tempfile.TemporaryDirectory() as nowhere:
        return Path(_download(module, version, Path(nowhere))["Dir"])


def _helm(made: Path) -> None:
    _go(
        made, "install", "-ldflags", _STRIPPED, f"helm.sh/helm/v3/cmd/helm@v{HELM}", GOBIN=str(made)
    )


def _api_server(made: Path) -> None:
    _kubernetes(made, "kube-apiserver", _API_SERVER)


def _kubectl(made: Path) -> None:
    _kubernetes(made, "kubectl", _KUBECTL)


def _kubernetes(made: Path, name: str, source: str) -> None:
    """A command of Kubernetes. Its module replaces those of its parts by folders that are not
    published; what is published is v0.MINOR.PATCH of each."""
    work = made / "work"
    work.mkdir()
    (work / "main.go").write_text(source)
    _go(work, "mod", "init", name)
    _go(work, "mod", "edit", "-require", f"k8s.io/kubernetes@v{KUBERNETES}")
    listed = Path(_download("k8s.io/kubernetes", f"v{KUBERNETES}", work)["GoMod"]).read_text()
    part = KUBERNETES.removeprefix("1.")
    for module in sorted(set(re.findall(r"(k8s\.io/[a-z0-9-]+) => \./staging", listed))):
        _go(work, "mod", "edit", "-replace", f"{module}={module}@v0.{part}")
    _go(work, "mod", "tidy")
    _go(work, "build", *_QUICK, "-ldflags", f"{_STRIPPED} {_VERSION}", "-o", str(made / name), ".")


def _download(module: str, version: str, where: Path) -> Mapping[str, str]:
    found: Mapping[str, str] = json.loads(
        _go(where, "mod", "download", "-json", f"{module}@{version}")
    )
    return found


def _go(where: Path, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        ["go", *arguments], cwd=where, env=os.environ | {"GOTOOLCHAIN": "local"} | environment,
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise BuildError(f"go {' '.join(arguments)}: {done.stderr.strip()[-500:]}")
    return done.stdout


_BUILDS: Final[Mapping[str, Callable[[Path], None]]] = {
    "helm": _helm, "kubectl": _kubectl, "kube-apiserver": _api_server,
}  # fmt: skip


def main() -> None:
    """Build what is missing."""
    if shutil.which("go") is None:
        print("no Go: tests with Helm and a Kubernetes API server are skipped", file=sys.stderr)
        return
    for name in sys.argv[1:] or _BUILDS:
        try:
            if not (folder() / name).exists():
                build(name)
            print(folder() / name)
        except BuildError as error:  # its tests are skipped, and say so
            print(f"{name}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
