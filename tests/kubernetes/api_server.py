"""A Kubernetes API server with etcd, on ports of this machine, without controllers and kubelets.

Objects are kept, admitted, authorised and evicted; pods never start.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from streaming.lab.local_cluster import free_base_port
from tests.kubernetes.tools import program
from tests.waiting import until

TOKEN: Final = "of-the-administrator"
_END_WITHIN_S: Final = 60
_READY_WITHIN_S: Final = 120


class KubectlError(Exception):
    """What kubectl said."""


@dataclass(frozen=True)
class Cluster:
    """A running API server."""

    folder: Path
    url: str

    @property
    def kubeconfig(self) -> Path:
        """The configuration of its administrator."""
        return self.folder / "kubeconfig"

    @property
    def authority(self) -> Path:
        """The certificate to trust."""
        return self.folder / "certs" / "apiserver.crt"

    def kubectl(self, *arguments: str, given: Any = None) -> str:
        """What a command prints; ``given`` is an object on its standard input.

        Raises:
            KubectlError: it failed.
        """
        done = subprocess.run(
            [program("kubectl"), "--kubeconfig", str(self.kubeconfig), *arguments],
            input=None if given is None else json.dumps(given), capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip
        if done.returncode:
            raise KubectlError(done.stderr.strip())
        return done.stdout

    def get(self, *arguments: str) -> list[dict[str, Any]]:
        """Objects of the API server."""
        found = json.loads(self.kubectl("get", *arguments, "-o", "json"))
        items: list[dict[str, Any]] = found.get("items", [found])
        return items

    def apply(self, *objects: dict[str, Any]) -> None:
        """Create or change objects, as the server's own apply does."""
        together = {"apiVersion": "v1", "kind": "List", "items": objects}
        self.kubectl("apply", "--server-side", "-f", "-", given=together)

    def audited(self, user: str) -> Iterator[dict[str, Any]]:
        """The requests of a user that were answered."""
        for line in (self.folder / "audit.log").read_text().splitlines():
            event = json.loads(line)
            if event["user"]["username"] == user and event["stage"] == "ResponseComplete":
                yield event


@contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """An API server that is ready, and ends with the block."""
    server = program("kube-apiserver")
    etcd = shutil.which("etcd")
    if etcd is None:
        pytest.skip("etcd is not on the PATH; it is in Debian's package etcd-server")
    port = free_base_port(span=3)
    cluster = Cluster(folder, f"https://127.0.0.1:{port}")
    _write(folder, cluster)
    here, peers = (f"http://127.0.0.1:{port + n}" for n in (1, 2))
    storing = [
        etcd, "--data-dir", "etcd", "--listen-client-urls", here, "--advertise-client-urls", here,
        "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
        "--initial-cluster", f"default={peers}", "--unsafe-no-fsync",
    ]  # fmt: skip
    serving = [
        server, "--etcd-servers", here, "--secure-port", str(port), "--bind-address", "127.0.0.1",
        "--cert-dir", "certs", "--service-account-issuer", "https://kubernetes.default.svc",
        "--service-account-signing-key-file", "sa.key", "--service-account-key-file", "sa.key",
        "--token-auth-file", "tokens.csv", "--authorization-mode", "RBAC",
        "--service-cluster-ip-range", "10.0.0.0/24,fd00:10::/112",
        "--disable-admission-plugins",
        "ServiceAccount", "--audit-policy-file", "audit.yaml", "--audit-log-path", "audit.log",
    ]  # fmt: skip
    with _started(storing, folder, "etcd"), _started(serving, folder, "api"):
        until(lambda: _is_ready(cluster), _READY_WITHIN_S, f"it is not ready: {folder}/api.log")
        yield cluster


def _is_ready(cluster: Cluster) -> bool:
    try:
        return cluster.kubectl("get", "--raw", "/readyz") == "ok"
    except KubectlError:
        return False


def _write(folder: Path, cluster: Cluster) -> None:
    subprocess.run(["openssl", "genrsa", "-out", str(folder / "sa.key"), "2048"],
                   check=True, capture_output=True)  # fmt: skip
    (folder / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
    (folder / "audit.yaml").write_text(yaml.dump(policy))
    trusted = {"server": cluster.url, "insecure-skip-tls-verify": True}
    cluster.kubeconfig.write_text(
        yaml.dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": trusted}],
                "users": [{"name": "u", "user": {"token": TOKEN}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )


@contextmanager
def _started(command: list[str], folder: Path, name: str) -> Iterator[None]:
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(_END_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
