"""The disks of a past moment: the archive keeps directories, forecasts and remote storage."""

from __future__ import annotations

import numpy as np
import pytest

from streaming.questions import QUESTIONS
from tests.asking import a_view
from tests.history.archive.archived import Archived
from tests.twin.disks.stage import HOUR_S, MB, TIERED, Growing, cycles, volumes
from twin.builtin import CATALOG
from twin.cluster_rules.disks.dir_contents import LogDirUse, ReportedLogDirs
from twin.cluster_rules.disks.disk_full import DiskForecasts
from twin.cluster_rules.disks.volume_curves import ReportedDiskCurves
from twin.cluster_rules.remote_storage import RemoteStorage
from twin.cluster_step import empty_cluster, reports, step_cluster
from twin.engine.shard_state import ShardState
from twin.step import step

SECONDS = [*range(0, 1_200, 30)]
TABLES = (DiskForecasts, LogDirUse, ReportedLogDirs, ReportedDiskCurves, RemoteStorage)


@pytest.fixture(scope="module")
def archived() -> tuple[Archived, Archived]:
    """A shard and the cluster's own."""
    part = Growing("orders", age_s=2 * HOUR_S, keeps_s=HOUR_S, uploaded_until_s=300)
    configs = {"orders": TIERED | {"local_retention_ms": 3_600_000, "segment_bytes": 10 * MB}}
    shard, cluster = Archived(), Archived()
    state, own = ShardState.empty(CATALOG, "c", 0, 1), empty_cluster(CATALOG, "c", 1)
    for frames, at_ms in cycles([part], volumes(36), configs, SECONDS):
        state, _ = step(state, frames, at_ms)
        own, _ = step_cluster(own, reports(state))
        shard.keep(state)
        cluster.keep(own)
    return shard, cluster


@pytest.mark.parametrize("index", [5, 17, 39])
def test_a_past_state_has_the_disks_of_then(archived: tuple[Archived, Archived], index: int):
    _, cluster = archived
    past, true = cluster.rebuilt(index), cluster.states[index]
    for table in TABLES:
        for column, was, now in zip(
            table.columns, past[table].values(), true[table].values(), strict=True
        ):
            np.testing.assert_array_equal(was, now, f"{table.kind}.{column.name}")
    assert len(true[DiskForecasts].broker) == 2


@pytest.mark.parametrize("index", [17, 39])
def test_a_question_about_remote_storage_is_answered_as_it_was_then(
    archived: tuple[Archived, Archived], index: int
):
    shard, cluster = archived
    question = QUESTIONS["tier-outage"]
    past, then = (
        question.data(a_view(state, cluster=own), {})
        for state, own in (
            (shard.rebuilt(index), cluster.rebuilt(index)),
            (shard.states[index], cluster.states[index]),
        )
    )
    assert past == then
    assert then["survived"] == "full"
