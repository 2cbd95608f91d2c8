"""A plan of one cluster is never applied to another, however alike they are."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin import AlterPartitionReassignmentsRequest

from streaming.bus.bus_topics import watch_group
from streaming.cli.main import main
from streaming.plans import journal
from streaming.plans.journal import Journal
from streaming.plans.plan import Origin, PlanError, PlannedChange
from streaming.runtime.configuration.loading import load_all
from tests.collector.fake_broker import FakeCluster, Partition, Topic, World, fake_cluster

FILE = Path("journal.jsonl")
NAMES = st.sampled_from(["orders", "payments"])
IDS = st.sampled_from(["", "id-1", "id-2"])


@given(NAMES, IDS, NAMES, IDS, st.booleans())
def test_only_name_and_id_together_make_it_the_same_cluster(
    name: str, cluster_id: str, here: str, here_id: str, of_several: bool
):
    written, now = Origin(name, cluster_id), Origin(here, here_id)
    is_same = name == here and cluster_id == here_id != ""
    is_old = name == here and cluster_id == "" and not of_several
    if is_same or is_old:
        written.require(FILE, now, of_several=of_several)
        return
    with pytest.raises(PlanError) as refused:
        written.require(FILE, now, of_several=of_several)
    assert "\n" not in str(refused.value)


def changed(kafka: FakeCluster, folder: Path, origin: Origin) -> Path:
    """The journal of a change that this cluster, and any copy of it, would take."""
    topic = kafka.world.topics["t"]
    planned = PlannedChange("t", str(topic.topic_id), 0, (1, 3, 2), (1, 2, 3), 1, 5, -1)
    with Journal(folder, origin) as written:
        written.done("order", planned, 0)
    if not origin.cluster_id:  # as earlier versions wrote it
        path = folder / journal.FILE
        first, *others = path.read_text().splitlines()
        header = {k: v for k, v in json.loads(first).items() if k != "cluster_id"}
        path.write_text("\n".join([json.dumps(header), *others]) + "\n")
    return folder / journal.FILE


def restored(kafka: FakeCluster, folder: Path, journal_path: Path, several: bool) -> Result:
    own = f'bootstrap = "{kafka.bootstrap}"\n'
    other = '[clusters.payments]\nbootstrap = "127.0.0.1:1"\n'
    path = folder / "twin.toml"
    path.write_text(
        f"[clusters.orders]\n{own}{other}" if several else f'[cluster]\nname = "orders"\n{own}'
    )
    chosen = ["--cluster", "orders"] if several else []
    command = ["--config", str(path), "plan", "restore", str(journal_path), *chosen]
    return CliRunner().invoke(main, command)


@pytest.mark.parametrize(
    ("name", "cluster_id", "several"),
    [*product(("orders", "payments"), ("copied", "other", ""), (True, False))],
)
def test_a_restored_copy_with_equal_topics_and_brokers_is_left_alone(
    tmp_path: Path, name: str, cluster_id: str, several: bool
):
    topic = Topic({0: Partition([1, 2, 3], epoch=5)})
    with fake_cluster(World({"t": topic}, cluster_id="copied")) as kafka:
        written = changed(kafka, tmp_path, Origin(name, cluster_id))
        done = restored(kafka, tmp_path, written, several)
        asked = sum(
            len(broker.asked_of(AlterPartitionReassignmentsRequest))
            for broker in kafka.brokers.values()
        )
    may = name == "orders" and (cluster_id == "copied" or (not cluster_id and not several))
    assert (asked > 0, done.exit_code == 0) == (may, may), done.output
    if not may:
        assert done.output.count("\n") == 1
        assert done.output.startswith(f"Error: {written} ")


def test_a_journal_that_is_continued_is_of_the_same_cluster(tmp_path: Path):
    with Journal(tmp_path, Origin("orders", "id-1")):
        pass
    with pytest.raises(PlanError, match="is of the Kafka cluster id-1, and orders is id-2 now"):
        Journal(tmp_path, Origin("orders", "id-2"))
    with Journal(tmp_path, Origin("orders", "id-1")):
        pass


def test_watches_of_clusters_with_one_bus_are_of_different_groups(tmp_path: Path):
    path = tmp_path / "twin.toml"
    path.write_text(
        '[bus]\nbootstrap = "bus:9092"\n[clusters.a]\n[clusters.a.bus]\nprefix = "same"\n'
        '[clusters.b]\n[clusters.b.bus]\nprefix = "same"\n[clusters.c]\n'
    )
    assert len({watch_group(config) for config in load_all(path, {}).values()}) == 3
