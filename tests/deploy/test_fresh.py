"""The health check of an exporter in a container, by the scheme that it speaks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from streaming.bus.view import SnapshotStore
from streaming.runtime.config import AccessConfig
from streaming.serving.certificate import Certificate
from tests.exporter.agents.asking import an_application
from tests.exporter.serving import served
from tests.exporter.test_exporter import CATALOG, a_busy_store
from tests.exporter.web.test_certificate import written

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "docker" / "fresh.py"
GUARDED = AccessConfig(token="looks")


def checked(url: str) -> tuple[int, str]:
    """Exit code, and what is said, of the check of a port."""
    port = url.rpartition(":")[2]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), port], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


def test_a_fresh_exporter_is_healthy_with_a_token_by_http_and_by_tls(tmp_path: Path):
    app = an_application(a_busy_store(), GUARDED)
    with served(app) as url:
        assert checked(url) == (0, "")
    with served(app, certificate=Certificate(*written(tmp_path, "exporter"))) as url:
        assert checked(url) == (0, "")


def test_one_that_is_not_fresh_says_why(tmp_path: Path):
    app = an_application(SnapshotStore(CATALOG, "c", 2), GUARDED)
    with served(app, certificate=Certificate(*written(tmp_path, "exporter"))) as url:
        assert checked(url) == (1, "no snapshot has been read yet\n")


def test_nobody_at_the_port_is_said():
    with served(an_application(a_busy_store(), GUARDED)) as url:
        pass
    code, said = checked(url)
    assert (code, said.startswith("no answer at port ")) == (1, True)
