"""The demo's home stands for the cluster in it, in every command alike."""

from pathlib import Path

from click.testing import CliRunner

from streaming.lab.commands import _of_demo, cluster
from streaming.lab.local_cluster import LocalCluster, free_base_port


def test_every_command_finds_the_cluster_of_the_demo_by_the_demos_home(tmp_path: Path):
    LocalCluster(tmp_path / "cluster", base_port=free_base_port()).layout.save()
    assert _of_demo(tmp_path) == tmp_path.resolve() / "cluster"
    assert _of_demo(tmp_path / "cluster") == tmp_path / "cluster"
    shown = CliRunner().invoke(cluster, ["status", "--home", str(tmp_path)])
    assert shown.exit_code == 0, shown.output


def test_a_home_without_a_cluster_says_how_to_make_one(tmp_path: Path):
    shown = CliRunner().invoke(cluster, ["status", "--home", str(tmp_path)])
    assert shown.exit_code == 1
    assert "kafka-twin cluster start makes one" in shown.output
