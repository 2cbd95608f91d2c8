"""What the archive's program refuses before it starts Spark."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pathlib import Path

from streaming.archive.program import run
from streaming.history.archive.delta import ArchiveError
from streaming.runtime.configuration.following import Followed


@pytest.mark.parametrize(
    ("archive", "why"),
    [
        ("", "archive.path: is not set"),
        ('path = "s3://bucket/past"', "archive.checkpoint: must be set"),
    ],
)
@pytest.mark.parametrize("clusters", ["", "[clusters.a]\n[clusters.b]\n"])
def test_it_refuses_in_one_line_what_it_cannot_do(
    tmp_path: Path, archive: str, clusters: str, why: str
):
    path = tmp_path / "twin.toml"
    path.write_text(f"{clusters}[archive]\n{archive}\n")
    with pytest.raises(ArchiveError, match=why) as refused:
        run(Followed(path, {}))
    assert "\n" not in str(refused.value)
