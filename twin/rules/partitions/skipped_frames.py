"""Frames on the bus that no ingest of this version takes in."""

from __future__ import annotations

from collections.abc import Mapping

from twin.declarations.declare import counter
from twin.tables.state import SkippedFrames


@counter(
    "frames_skipped",
    "Frames of kinds that the query does not know, by kind.",
    labels=("kind",),
)
def frames_skipped(skipped: SkippedFrames) -> Mapping[tuple[str], int]:
    """The skipped frames since the state began."""
    pairs = zip(skipped.kind_name.tolist(), skipped.frames.tolist(), strict=True)
    return {(str(kind),): count for kind, count in pairs}
