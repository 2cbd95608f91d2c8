"""What a log takes on disk from now on, against a loop that plays it byte by byte of its strip."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np
import pytest

from twin.rules.disks.log_model import HORIZON_S, Logs, size_changes
from twin.rules.disks.points import POINTS_S, summed_at_points


@dataclass(frozen=True)
class Plain:
    """One log, played in steps: what is there as pieces with their ages, the oldest first."""

    size_bytes: float
    written_bytes_per_s: float
    span_s: float
    keeps_s: float
    keeps_bytes: float
    uploaded_bytes: float = math.inf
    uploaded_bytes_per_s: float = 0.0

    def sizes(self, times_s: list[float]) -> list[float]:
        """The size at each of those times."""
        found = []
        for at_s in times_s:
            end = self.size_bytes + self.written_bytes_per_s * at_s
            start = max(self._too_old(at_s), end - self.keeps_bytes, 0.0)
            start = min(start, self.uploaded_bytes + self.uploaded_bytes_per_s * at_s)
            found.append(end - start)
        return found

    def _too_old(self, at_s: float) -> float:
        """The place in the strip of the record that is just as old as retention by age keeps."""
        written_at_s = at_s - self.keeps_s  # of that record
        if written_at_s >= 0:
            return self.size_bytes + self.written_bytes_per_s * written_at_s
        if written_at_s <= -self.span_s:
            return 0.0
        return self.size_bytes * (1 + written_at_s / self.span_s)


def arrays(logs: list[Plain]) -> Logs:
    names = Logs.__dataclass_fields__
    return Logs(*(np.array([float(getattr(log, name)) for log in logs]) for name in names))


def a_log(rng: random.Random) -> Plain:
    mb, hour = 1e6, 3_600.0
    size = rng.choice([0.0, 1.0, rng.uniform(1, 5_000) * mb])
    rate = rng.choice([0.0, rng.uniform(0, 5) * mb, rng.uniform(0, 0.001) * mb])
    uploaded = rng.choice([math.inf, 0.0, size, size * rng.random()])
    return Plain(
        size, rate, rng.choice([1.0, rng.uniform(1, 200 * hour)]),
        rng.choice([math.inf, 1.0, rng.uniform(1, 200 * hour)]),
        rng.choice([math.inf, 1.0, rng.uniform(1, 5_000) * mb, size]),
        uploaded, rng.choice([0.0, rate, rate * rng.random(), rate * 2]),
    )  # fmt: skip


def test_the_sums_of_two_thousand_clusters_equal_a_plain_loop():
    rng = random.Random(20261130)
    for _ in range(2_000):
        logs = [a_log(rng) for _ in range(rng.randint(1, 9))]
        cell = [rng.randrange(3) for _ in logs]
        where = np.arange(len(logs))
        said = summed_at_points(size_changes(arrays(logs)), where, np.array(cell), 3)
        expected = np.zeros((3, len(POINTS_S)))
        for log, of_log in zip(logs, cell, strict=True):
            expected[of_log] += np.array(log.sizes(POINTS_S.tolist())) - log.size_bytes
        np.testing.assert_allclose(said, expected, rtol=1e-6, atol=50.0)


def change_after(log: Plain, at_s: float) -> float:
    changes = size_changes(arrays([log]))
    return float(np.interp(at_s, changes.at_s[:, 0], changes.bytes[:, 0]))


HOUR_S = 3_600.0


@pytest.mark.parametrize(
    ("log", "after_two_hours"),
    [  # 1 MB/s
        (Plain(3.6e9, 1e6, HOUR_S, math.inf, math.inf), 7.2e9),  # nothing is deleted
        (Plain(3.6e9, 1e6, HOUR_S, HOUR_S, math.inf), 0.0),  # as much is deleted as is written
        (Plain(3.6e9, 1e6, HOUR_S, 2 * HOUR_S, math.inf), 3.6e9),  # it grows for an hour more
        (Plain(3.6e9, 1e6, HOUR_S, math.inf, 5e9), 1.4e9),  # up to what retention keeps
        (Plain(3.6e9, 0.0, HOUR_S, 2 * HOUR_S, math.inf), -3.6e9),  # idle: all becomes too old
        (Plain(3.6e9, 1e6, HOUR_S, HOUR_S, math.inf, 0.0), 7.2e9),  # uploads do not work
        (Plain(3.6e9, 1e6, HOUR_S, HOUR_S, math.inf, 1.8e9), 5.4e9),  # half of it is uploaded
        (Plain(3.6e9, 1e6, HOUR_S, HOUR_S, math.inf, 0.0, 5e5), 3.6e9),  # at half the rate
    ],
)
def test_a_log_takes(log: Plain, after_two_hours: float):
    assert change_after(log, 2 * HOUR_S) == pytest.approx(after_two_hours, abs=1)


def test_two_replicas_of_a_log_count_where_each_is():
    changes = size_changes(arrays([Plain(0.0, 10.0, 1.0, math.inf, math.inf)]))
    sums = summed_at_points(changes, np.array([0, 0]), np.array([1, 2]), 4)
    assert sums[:, -1].tolist() == pytest.approx([0, 10 * HORIZON_S, 10 * HORIZON_S, 0])
