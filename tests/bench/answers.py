"""Digests of what the exporter answers about seeded clusters, to compare two builds.

    git worktree add ../before COMMIT
    PYTHONPATH=../before python tests/bench/answers.py 50 100 > before.txt
    python -m tests.bench.answers 50 100 | diff before.txt -

A line a seeded cluster for the tables of its own shard with all its events, one for its metrics,
and one for each question about it: every path of the API, with each of its parameters in turn.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
from starlette.testclient import TestClient

from streaming.bus.view import SnapshotStore
from streaming.exporter.metrics.exposition import Renderer
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import application
from streaming.history.capsules.saving import Recorded
from streaming.query.event_rows import changed
from streaming.runtime.config import ExporterConfig
from tests.history.recorded import RecordedPast, message
from tests.log_dir_frames import Directory, log_dirs_frame
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.cluster_step import empty_cluster, reports, step_cluster
from twin.engine import codec
from twin.engine.changes import Change
from twin.engine.frames import Frame
from twin.engine.shard_reports import CLUSTER
from twin.engine.shard_state import ShardState
from twin.proposals import PROPOSALS
from twin.remote_log import segment_store
from twin.step import step, step_segments

START_MS: Final = 1_800_000_000_000
INTERVAL_MS: Final = 5_000
SHARDS: Final = 2
BROKERS: Final = 6

VALUES: Final[dict[str, str]] = {
    "at": "-1m", "from": "-5m", "to": "-1m", "around": "-1m", "broker": "2", "with": "3",
    "rack": "az-a", "topic": "topic-0-0", "partition": "1", "search": "topic", "group": "group-0",
    "limit": "3", "offset": "1", "local_ms": "1h", "ms": "1h", "for": "2h", "rate": "10MiB",
    "bytes": "1GiB", "local_bytes": "1GiB", "upload_bytes_per_s": "1MiB", "since": "0",
    "margin": "1", "most": "2", "buckets": "5", "partitions": "5", "min_isr": "2",
}  # fmt: skip
"""Of parameters; the others have their example, their first value or *true*."""

LASTING: Final = ("/api/v1/events", "/api/v1/openapi.json", "/", "/metrics", "/-/")
"""Paths that go on, that describe the build, or that speak of the process."""

PAST_EVERY: Final = 5
"""Of so many clusters one has a past that can be asked, which takes thrice the time."""


def cluster(seed: int, cycles: int) -> tuple[SnapshotStore, RecordedPast, str, int]:
    """What readers of the bus have of a seeded cluster, its past, a digest of its own shard, and
    the time of its last cycle.
    """
    shape = Shape(
        topics=2 + seed % 2, partitions=3, brokers=BROKERS, replication=1 + seed % 4,
        groups=seed % 3, fetches=bool(seed % 2), tier=seed % 3 == 0,
    )  # fmt: skip
    shards = [SimulatedShard(shape, seed, "sim", n, SHARDS) for n in range(SHARDS)]
    states = [ShardState.empty(CATALOG, "sim", n, SHARDS) for n in range(SHARDS)]
    segments: list[segment_store.SegmentStore] = [{} for _ in range(SHARDS)]
    own, digest = empty_cluster(CATALOG, "sim", SHARDS), hashlib.sha256()
    runs = [shard.run(cycles, START_MS, INTERVAL_MS) for shard in shards]
    messages: list[tuple[int, bytes]] = []
    events: list[Change] = []
    at_ms = START_MS
    for cycle, observed in enumerate(zip(*runs, strict=True)):
        at_ms = START_MS + cycle * INTERVAL_MS
        reported: list[Frame] = []
        for n, sent in enumerate(observed):
            frames = [frame for frame in sent if frame.header.kind not in segment_store.KINDS]
            remote = [frame for frame in sent if frame.header.kind in segment_store.KINDS]
            if cycle % 12 == 0:
                of = {"cluster": "sim", "shard": n, "shards": SHARDS,
                      "cycle": sent[0].header.cycle}  # fmt: skip
                usable = (5 << 40) - (cycle << 34)
                disks = [Directory(b, 0, 10 << 40, usable) for b in range(1, BROKERS + 1)]
                frames.append(log_dirs_frame(disks, at_ms, **of))
            messages.append((n, message([*frames, *remote])))
            states[n], changes = step(states[n], frames, at_ms)
            events += changes
            states[n], segments[n], _ = step_segments(states[n], segments[n], remote)
            reported += reports(states[n])
        own, changes = step_cluster(own, reported)
        events += changes
        digest.update(repr(changes).encode())
        for table in sorted(own.catalog.stored, key=lambda each: each.kind):
            for column, values in zip(table.columns, own[table].values(), strict=True):
                digest.update(f"{table.kind}.{column.name}{np.asarray(values).tolist()}".encode())
    store = SnapshotStore(CATALOG, "sim", SHARDS)
    for state in (*states, own):
        number = "cluster" if state.shard == CLUSTER else state.shard
        assert store.take_snapshot(f"sim/{number}".encode(), codec.encode(state), at_ms + 700)
    written = [changed(each)[1] for each in events]
    past = RecordedPast(Recorded("sim", SHARDS, messages, written, tuple(PROPOSALS)))
    return store, past, digest.hexdigest(), at_ms


def questions(api: dict[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    """Every path with what it must have, then with each other parameter."""
    for path, operations in api["paths"].items():
        if path in LASTING or path.startswith(LASTING[-1]):
            continue
        given = operations["get"].get("parameters", [])
        values = {each["name"]: _value(each) for each in given if each["in"] != "header"}
        needed = {each["name"] for each in given if each.get("required")}
        full = path
        for each in given:
            if each["in"] == "path":
                full = full.replace(f"{{{each['name']}}}", values[each["name"]])
        in_path = {each["name"] for each in given if each["in"] == "path"}
        always = {name: values[name] for name in needed - in_path}
        yield full, always
        for name, value in values.items():
            if name not in needed:
                yield full, {**always, name: value}


def _value(parameter: dict[str, Any]) -> str:
    schema = parameter["schema"]
    schema = schema.get("items", schema)
    if parameter["name"] in VALUES:
        return VALUES[parameter["name"]]
    if "enum" in schema:
        return str(schema["enum"][0])
    return str(schema.get("examples", [None])[0] or {"boolean": "true"}.get(schema["type"], "1"))


def main() -> None:
    """Print the lines of each cluster."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clusters", type=int)
    parser.add_argument("cycles", type=int)
    chosen = parser.parse_args()
    for seed in range(chosen.clusters):
        store, past, digest, at_ms = cluster(seed, chosen.cycles)
        time.time = lambda at_ms=at_ms: at_ms / 1_000 + 1
        rendered = Renderer(CATALOG, "sim", ExporterConfig()).render(store.publish(at_ms + 800))
        source = ViewSource(
            CATALOG, "sim", lambda rendered=rendered: rendered, lambda at_ms=at_ms: at_ms + 1_000,
            past=past if seed % PAST_EVERY == 0 else None,
        )  # fmt: skip
        source.events.close()
        print(seed, "own shard", digest)
        print(seed, "metrics", _digest(b"".join(_samples(rendered.blocks))))
        client = TestClient(application(source))
        for path, query in questions(client.get("/api/v1/openapi.json").json()):
            answer = client.get(path, params=query)
            print(seed, path, query, answer.status_code, _digest(answer.content), flush=True)


def _samples(blocks: Iterable[bytes]) -> list[bytes]:
    """The samples in order of their names, without what a build took to write them."""
    lines = b"".join(blocks).splitlines(keepends=True)
    return sorted(line for line in lines if b"_render_seconds" not in line)


def _digest(content: bytes) -> str:
    """Of JSON whatever the order of its names."""
    if content.startswith(b"{"):
        content = json.dumps(json.loads(content), sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()[:16]


if __name__ == "__main__":
    main()
