"""What the archive's program refuses before it starts Spark."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from streaming.archive.program import run
from streaming.history.archive.delta import ArchiveError
from streaming.runtime.config import ArchiveConfig, Config


@pytest.mark.parametrize(
    ("archive", "why"),
    [
        (ArchiveConfig(), "archive.path: is not set"),
        (ArchiveConfig(path="s3://bucket/past"), "archive.checkpoint: must be set"),
    ],
)
def test_it_refuses_in_one_line_what_it_cannot_do(archive: ArchiveConfig, why: str):
    with pytest.raises(ArchiveError, match=why) as refused:
        run(Config(archive=archive))
    assert "\n" not in str(refused.value)
