"""A past to look at: a capsule of a simulated cluster in which things happen now and then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from streaming.exporter.capsule_server import source_of
from streaming.exporter.web_application import application
from streaming.history.capsules.opening import Capsule
from streaming.history.capsules.saving import Recorded, save
from tests.exporter.serving import served
from tests.history.recorded import a_recording, at, with_events
from tests.simulator.shard import Shape
from twin.builtin import CATALOG

CYCLES: Final = 60
SHAPE: Final = Shape(topics=3, partitions=4, brokers=5, groups=2)


@dataclass(frozen=True)
class ShownPast:
    """An exporter of a capsule, and the times of its changes in order, each once."""

    url: str
    changes_at_ms: list[int]


@contextmanager
def serving_past() -> Iterator[ShownPast]:
    """The exporter of a capsule of five minutes."""
    recorded = with_events(a_recording(CYCLES, 1, seed=5, shape=SHAPE))
    with serving_recorded(recorded, at(0), at(CYCLES - 1)) as shown:
        yield shown


@contextmanager
def serving_recorded(recorded: Recorded, from_ms: int, to_ms: int) -> Iterator[ShownPast]:
    """The exporter of a capsule of that span of a recording."""
    times = sorted({msgspec.json.decode(each)["at_ms"] for each in recorded.events})
    with TemporaryDirectory() as folder:
        file = Path(folder) / "c"
        save(recorded, CATALOG, from_ms, to_ms, file)
        with closing(Capsule(file)) as opened:
            source = source_of(opened)
            with served(application(source), source.events) as url:
                yield ShownPast(url, times)
