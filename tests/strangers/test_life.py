"""Five minutes of the life of a cluster: after each step the twin says what Kafka says."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from tests.strangers.run_life import run_life

pytestmark = [pytest.mark.cluster, pytest.mark.releases, pytest.mark.timeout(2400)]

MINUTES: Final = 5
SEED: Final = int(os.environ.get("LIFE_SEED") or datetime.now(UTC).strftime("%Y%m%d"))
"""Another life each day. It is printed: ``LIFE_SEED`` plays one again. 466 begins with the steps
that found most so far: replicas of a first partition, and restarts."""


def test_after_each_step_the_twin_agrees_with_kafka_and_no_risk_is_false(tmp_path: Path) -> None:
    lived = run_life(tmp_path, SEED, MINUTES, print)
    print("\n".join(lived.lines()))
    assert lived.objections == []
    assert lived.steps.total() > 1
    assert lived.written > 1_000
