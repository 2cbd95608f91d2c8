"""Five minutes of the life of a cluster: after each step the twin says what Kafka says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.strangers.run_life import run_life

pytestmark = [pytest.mark.cluster, pytest.mark.releases, pytest.mark.timeout(2400)]

MINUTES: Final = 5
SEED: Final = int(os.environ.get("LIFE_SEED", "20261129"))
"""The same life for each commit, so that a run depends on the change alone; ``LIFE_SEED`` and
``make soak ARGS="--life --seed N"`` play others. 466 begins with replicas of a first partition, and
restarts."""


def test_after_each_step_the_twin_agrees_with_kafka_and_no_risk_is_false(tmp_path: Path) -> None:
    lived = run_life(tmp_path, SEED, MINUTES, print)
    print("\n".join(lived.lines()))
    assert lived.objections == []
    assert lived.steps.total() > 1
    assert lived.written > 1_000
