"""Prints the answers of a twin with the packages that are installed beside it.

It is given a folder: with the package of ``plugin/`` it writes a cycle and the state made of it
there, without the package it reads both. It prints what it saw as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import Row
from pyspark.sql.streaming import TwsTester

from streaming.bus.view import SnapshotStore
from streaming.exporter.metrics.exposition import Renderer
from streaming.exporter.views.partitions import partition_objects
from streaming.query.processor import Destination, TwinProcessor
from streaming.runtime.config import Config, ExporterConfig
from streaming.runtime.errors import UserError
from streaming.runtime.plugins import catalog_of, enabled_proposals
from tests.builders import NOW_MS, Partition, brokers_frame, partitions_frame, replicas_frame
from tests.simulator.shard import rows
from twin.engine import codec
from twin.engine.frames import Frame, FrameHeader, encode, join

KIND = "disk_temperatures"
PARTS = (Partition("t", 0), Partition("t", 1, replicas=(2, 3, 1)))


def main(folder: Path) -> None:
    """Print the catalog, what became of the cycle, and of the state that was written before."""
    config = Config()
    try:
        catalog = catalog_of(config)
    except UserError as error:
        print(json.dumps({"error": str(error)}))
        return
    cycle = folder / "cycle"
    if KIND in catalog.observations:
        table = catalog.observations[KIND]
        header = FrameHeader(KIND, "c", 0, 1, NOW_MS, NOW_MS % 1_000_000)
        read = encode(Frame(header, rows(table, broker=[2], celsius=[71])), catalog.observations)
        frames = (brokers_frame(), partitions_frame(PARTS), replicas_frame(PARTS))
        cycle.write_bytes(join([read, *map(encode, frames)]))
    processor = TwinProcessor(
        {"": Destination(1, "snapshots", "events")}, enabled_proposals(config)
    )
    tester = TwsTester(processor)
    row = Row(
        key="c/0", value=cycle.read_bytes(), topic="o", partition=0, offset=0, timestamp_ms=NOW_MS
    )
    sent = tester.test("c/0", [row])
    [snapshot] = [bytes(each.value) for each in sent if each.topic == "snapshots"]
    held = folder / "state"
    if KIND in catalog.observations:
        held.write_bytes(snapshot)
    store = SnapshotStore(catalog, "c", 1)
    store.take_snapshot(b"c/0", snapshot)
    blocks = Renderer(catalog, "c", ExporterConfig()).render(store.publish()).blocks
    state = store.view.shards[0].state
    earlier = codec.decode(held.read_bytes(), catalog)
    report: dict[str, Any] = {
        "tables": [table.kind for table in catalog.stored],
        "risks": {risk.name: risk.alert_name for risk in catalog.all_risks},
        "events": [bytes(each.value).decode() for each in sent if each.topic == "events"],
        "metrics": b"".join(blocks).decode(),
        "partitions": partition_objects(state, np.arange(state.partitions), NOW_MS),
        "discarded": earlier.discarded,
        "earlier_partitions": earlier.state.partitions,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
