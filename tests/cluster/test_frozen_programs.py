"""Every program starts although one of the three bootstrap addresses hangs, whichever it is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Final

import pytest

from streaming.runtime.kafka import clients
from tests.cluster.pipeline import STARTS_WITHIN_S, Pipeline
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.losses]

STARTS: Final = int(os.environ.get("FROZEN_STARTS", "1"))
COMMANDS: Final = (
    (["check"], (0,)),
    (["gate", "restart", "--broker", "1"], (0, 1)),  # 2: no answer
    (["whatif", "lose", "--broker", "2"], (0,)),
)
"""Each with the exit codes of an answer."""


def run(pipeline: Pipeline, command: list[str]) -> tuple[int, str]:
    """Exit code and output of a command."""
    config = str(pipeline.folder / "twin.toml")
    ended = subprocess.run(
        [sys.executable, "-m", "streaming", "--config", config, *command],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize("frozen", [1, 2, 3])
def test_every_program_starts_while_a_bootstrap_address_hangs(
    pipeline: Pipeline, frozen: int
) -> None:
    pipeline.cluster.pause(frozen)
    frozen_s = time.time()
    # Brokers and controllers need a while until another one leads what the frozen one led.
    until(lambda: pipeline.observed_since(frozen_s + 1), 60, "the twin does not go on")
    place = clients.places(pipeline.cluster.bootstrap)[frozen - 1]
    for _ in range(STARTS):
        for command, answers in COMMANDS:
            began_s = time.monotonic()
            code, output = run(pipeline, command)
            print(*command, f"{time.monotonic() - began_s:.1f} s")
            assert code in answers, output
            assert command != ["check"] or f"cluster.bootstrap {place}: cannot be" in output
        pipeline.kill("exporter")
        pipeline.start("exporter")
        since_s = time.time()
        until(lambda: pipeline.observed_since(since_s), 30, "the exporter serves nothing")  # noqa: B023
    for name in ("collector", "query"):
        assert pipeline.term(name) == 0
        pipeline.start(name)
    since_s = time.time()
    until(lambda: pipeline.observed_since(since_s), STARTS_WITHIN_S, "it does not start")
    assert all(pipeline.alive(name) for name in pipeline.programs)
