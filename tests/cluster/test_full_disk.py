"""Remote storage is away: when the twin says that a disk is full, and when a directory fails.

Real brokers have their log directories on small volumes. Topics are written at constant rates and
uploaded; then the folder of the tier is taken away, until a directory has failed, or it is given
back before. FULL_DISK_SEEDS has the seeds of more runs than CI plays: 1 to 12. Each prints what
docs/disks.md has of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from streaming.lab.local_cluster import LocalCluster
from tests.cluster.broker_client import (
    EARLIEST,
    LATEST,
    LATEST_TIERED,
    BrokerClient,
)
from tests.cluster.small_volumes import (
    RECORD_BYTES,
    SEGMENT_BYTES,
    SHAPES,
    TIERED,
    WARM_S,
    Run,
    Twin,
    Volume,
    away,
    change_leaders,
    create_topics,
    failed,
    small_volumes,
    written,
)
from tests.cluster.watching import watching
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.losses]

SEEDS: Final = [int(seed) for seed in os.environ.get("FULL_DISK_SEEDS", "1,3").split(",")]
SHARES: Final = (0.3, 0.6, 0.9)
"""Of the way from the beginning of the outage to the failed directory, at which it is compared."""

LEADERS_CHANGE_S: Final = 40
"""After the beginning of the outage."""


@contextmanager
def _in_order(run: Run, home: Path) -> Iterator[tuple[LocalCluster, Twin]]:
    """A cluster whose topics have been written and uploaded for as long as rates need."""
    with small_volumes(home, dict(zip(run.volumes, run.volumes_mb, strict=True))) as cluster:
        rates = create_topics(cluster, run)
        with written(cluster.bootstrap, rates), watching(cluster.bootstrap) as watch:
            twin, began = Twin(watch), time.monotonic()

            def is_warm() -> bool:
                twin.look()
                passed_s = time.monotonic() - began
                return passed_s > WARM_S and bool(twin.full_after_s(cluster))

            until(is_warm, 120, pause_s=2)
            assert twin.opened("disk_full_soon") == [] or run.shape.has_plain
            yield cluster, twin


@dataclass
class Outage:
    """What was said and what was so, second by second since remote storage is away."""

    said: list[tuple[float, dict[Volume, float]]]
    paged_s: dict[int, int]
    failing_s: int | None = None
    changed: bool = False

    def watch(self, cluster: LocalCluster, twin: Twin, run: Run, until_s: float) -> float:
        """Look until a directory has failed, or for so long; returns how long that was."""
        began = time.monotonic()
        at_s = 0.0
        while at_s < until_s and failed(cluster, run.volumes) is None:
            at_s = time.monotonic() - began
            if run.shape.changes_leaders and not self.changed and at_s > LEADERS_CHANGE_S:
                change_leaders(cluster, run)
                self.changed = True
            with suppress(AssertionError):  # nobody answers while a broker ends
                twin.look()
                self.said.append((time.monotonic() - began, twin.full_after_s(cluster)))
                for broker in twin.opened("disk_full_soon") or ():
                    self.paged_s.setdefault(broker, round(at_s))
                if self.failing_s is None and twin.opened("remote_storage_failing"):
                    self.failing_s = round(at_s)
            time.sleep(0.5)
        return time.monotonic() - began


def _seeds(*, give_back: bool) -> list[int]:
    return [seed for seed in SEEDS if SHAPES[seed].gives_back == give_back]


@pytest.mark.parametrize("seed", _seeds(give_back=False))
def test_a_disk_is_full_when_the_twin_says_it_is(seed: int, tmp_path: Path) -> None:
    run = Run.of(seed)
    with _in_order(run, tmp_path / "cluster") as (cluster, twin), away(cluster):
        outage = Outage([], {})
        full_s = outage.watch(cluster, twin, run, 900)
        first = failed(cluster, run.volumes)
    print(f"\nseed {seed}: {run}")
    print(
        f"  {first} failed after {full_s:.0f} s; paged {outage.paged_s}, "
        f"remote storage failing {outage.failing_s}"
    )
    assert first is not None
    rows = []
    for share in SHARES:
        at_s, said = min(outage.said, key=lambda each: abs(each[0] - share * full_s))
        rows.append((share, said[first], full_s - at_s))
        print(
            f"  {share:.0%}: said { ({v: round(s) for v, s in said.items()}) }, "
            f"took {full_s - at_s:.0f} s"
        )
        assert min(said, key=lambda volume: said[volume]) == first
    for share, foretold_s, left_s in rows:
        # What is written to the last megabytes waits for the page cache and the check.
        assert abs(foretold_s - left_s) <= max(0.15 * left_s, 8), (share, rows)


@pytest.mark.parametrize("seed", _seeds(give_back=True))
def test_uploads_have_caught_up_when_the_twin_says_it(seed: int, tmp_path: Path) -> None:
    run = Run.of(seed)
    with _in_order(run, tmp_path / "cluster") as (cluster, twin):
        before = twin.in_outage(run.outage_s)
        with away(cluster):
            outage = Outage([], {})
            outage.watch(cluster, twin, run, run.outage_s)
            assert failed(cluster, run.volumes) is None
            during = twin.in_outage(0)
            unreadable = _unreadable(cluster, run)
            twin.look()
            at_the_end = twin.in_outage(0)
        began = time.monotonic()
        until(lambda: _waiting_bytes(cluster, run) <= 2 * SEGMENT_BYTES, 240, pause_s=0.3)
        took_s = time.monotonic() - began
    said_s = [_caught_up_s(said) for said in (before, at_the_end)]
    said_records = during["on_no_disk"]["records"]
    print(f"\nseed {seed}: {run}, remote storage failing {outage.failing_s}")
    print(
        f"  caught up: said {said_s[0]:.0f} s before and {said_s[1]:.0f} s at the end of the "
        f"outage, took {took_s:.0f} s"
    )
    print(f"  unreadable: said {said_records} records, {unreadable} were")
    assert [abs(each - took_s) <= max(0.15 * took_s, 8) for each in said_s] == [True, True]
    assert said_records == unreadable > 0


def _caught_up_s(said: Mapping[str, Any]) -> float:
    """The longest that is said of a broker."""
    return max(each["catch_up_after_s"] or 0.0 for each in said["brokers"])


def _unreadable(cluster: LocalCluster, run: Run) -> int:
    """Records from the log start on that no leader gives to a consumer."""
    client, count = BrokerClient(cluster), 0
    for number in range(len(run.volumes)):
        leader = client.routed(1)[TIERED, number]
        first, last = (client.offset(leader, TIERED, number, kind) for kind in (EARLIEST, LATEST))
        start, low = first, first
        while low < last:  # the first that can be read lies in between
            middle = (low + last) // 2
            if client.fetch(leader, TIERED, middle, number=number).records:
                last = middle
            else:
                low = middle + 1
        count += low - start
    return count


def _waiting_bytes(cluster: LocalCluster, run: Run) -> int:
    """What is not uploaded of the partition of which most is not."""
    client, waiting = BrokerClient(cluster), 0
    for number in range(len(run.volumes)):
        leader = client.routed(1)[TIERED, number]
        end, tiered = (
            client.offset(leader, TIERED, number, kind) for kind in (LATEST, LATEST_TIERED)
        )
        waiting = max(waiting, (end - tiered - 1) * RECORD_BYTES)
    return waiting
