"""Layouts that a local cluster may have, and the file that stores one. Nothing is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from streaming.lab import commands
from streaming.lab.cluster_config import ClusterLayout, disk_of, load, properties, write_files
from streaming.lab.local_cluster import ClusterError, LocalCluster, free_base_port
from streaming.runtime import jars


def test_no_two_listeners_share_a_port_in_the_largest_cluster() -> None:
    layout = ClusterLayout(Path("/home"), nodes=5, brokers=5)
    ports = [port for node in layout.ids for port in layout.listens_on(node)]
    assert len(ports) == len(set(ports)) == 25


def test_nothing_listens_for_metrics_where_they_are_off() -> None:
    layout = ClusterLayout(Path("/home"), nodes=1, metrics=False)
    assert layout.listens_on(1) == [29_091, 29_101]
    assert layout.metrics_urls == {}


def test_each_broker_serves_its_metrics_at_a_port_of_its_own() -> None:
    urls = {1: "http://127.0.0.1:29111/metrics", 2: "http://127.0.0.1:29112/metrics"}
    assert ClusterLayout(Path("/home"), nodes=1, brokers=1).metrics_urls == urls


@pytest.mark.parametrize("later", ["metrics", "release", "request_logs", "log_dirs"])
def test_a_layout_that_was_saved_before_it_had_a_field_is_read(tmp_path: Path, later: str) -> None:
    ClusterLayout(tmp_path).save()
    saved = json.loads((tmp_path / "cluster.json").read_text())
    del saved[later]
    (tmp_path / "cluster.json").write_text(json.dumps(saved))
    assert load(tmp_path) == ClusterLayout(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"nodes": 0}, "at least one node"),
        ({"nodes": 3, "brokers": 8}, "at most 10 of both"),
        ({"base_port": 32_738}, "base port 32738 is not between 1024 and 32737"),
        ({"base_port": 80}, "base port 80"),
        ({"home": Path("/a,b")}, "comma"),
        ({"log_dirs": 0}, "at least one log directory"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(wrong: dict[str, object], reason: str) -> None:
    with pytest.raises(ClusterError, match=reason):
        ClusterLayout(**{"home": Path("/home"), **wrong})  # type: ignore[arg-type]


def test_the_highest_base_port_keeps_every_port_below_the_lent_ones() -> None:
    layout = ClusterLayout(Path("/home"), nodes=10, base_port=32_737)
    assert max(layout.agent_port(node) for node in layout.ids) == 32_767


def test_a_layout_is_read_back_as_it_was_saved(tmp_path: Path) -> None:
    layout = ClusterLayout(
        tmp_path, 1, 2, 20_000, {"a": "b"}, "300m", ("-Dport={port}",), False, "/3.9", True
    )
    layout.save()
    assert load(tmp_path) == layout


def test_a_home_without_a_cluster_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="kafka-twin cluster start makes one"):
        LocalCluster.open(tmp_path)


@pytest.mark.parametrize("text", ["not json", "[]", "{}", '{"java_opts": [], "colour": "red"}'])
def test_a_strange_cluster_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(ClusterError, match=r"cluster\.json was not written by kafka-twin"):
        load(tmp_path)


def test_a_folder_that_is_not_a_cluster_is_never_wiped(tmp_path: Path) -> None:
    (tmp_path / "letters").write_text("dear")
    with pytest.raises(ClusterError, match="is not removed"):
        LocalCluster(tmp_path).wipe()
    assert (tmp_path / "letters").exists()


def test_settings_of_the_user_win() -> None:
    layout = ClusterLayout(Path("/home"), settings={"num.io.threads": "9"})
    assert properties(layout, 1)["num.io.threads"] == "9"


def test_a_broker_only_node_has_no_controller() -> None:
    layout = ClusterLayout(Path("/home"), nodes=1, brokers=1)
    settings = properties(layout, 2)
    assert settings["process.roles"] == "broker"
    assert "CONTROLLER://" not in settings["listeners"]
    assert layout.listens_on(2) == [29_092, 29_112]


def test_java_options_have_node_and_port_filled_in() -> None:
    layout = ClusterLayout(
        Path("/home"), java_opts=("-javaagent:a.jar={port}", "-Dn={node}", "-Dx={y}")
    )
    assert layout.options(2) == ["-javaagent:a.jar=29112", "-Dn=2", "-Dx={y}"]


@pytest.mark.parametrize("name", ["log4j2.properties", "log4j.properties"])
def test_requests_are_logged_where_a_tap_reads_them_and_not_elsewhere(
    tmp_path: Path, name: str
) -> None:
    def text(layout: ClusterLayout) -> str:
        write_files(layout, 1)
        return (layout.folder(1) / name).read_text()

    quiet, logged = text(ClusterLayout(tmp_path)), text(ClusterLayout(tmp_path, request_logs=True))
    assert quiet != logged
    assert quiet.replace("level = WARN", "level = DEBUG").replace("WARN, ", "DEBUG, ") == logged
    written = {line.partition("=")[2].strip() for line in logged.splitlines()}
    assert {str(log) for log in ClusterLayout(tmp_path).logs(1)} <= written


def test_another_release_is_for_the_nodes_that_are_started_from_now_on(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "home", release=tmp_path / "3.9.1")
    assert cluster.layout.release == str(tmp_path / "3.9.1")
    cluster.use(None)
    assert cluster.layout.release == ""
    assert cluster.jars() == jars.ensure("kafka")


def test_a_node_may_have_several_log_directories() -> None:
    layout = ClusterLayout(Path("/home"), log_dirs=2)
    assert layout.disks(3) == [Path("/home/node3/data"), Path("/home/node3/data2")]
    assert properties(layout, 3)["log.dirs"] == "/home/node3/data,/home/node3/data2"


def test_each_disk_has_an_id_of_its_own_in_the_same_cluster() -> None:
    formatted = "#\n#Mon\ncluster.id=abc=\ndirectory.id=first\nnode.id=1\nversion=1\n"
    settings = dict(line.split("=", 1) for line in disk_of(2, formatted).splitlines())
    assert settings["cluster.id"] == "abc="
    assert settings["node.id"] == "2"
    assert settings["directory.id"] not in ("", "first")


@pytest.mark.parametrize("span", [1, 8, 40, 60])
def test_free_ports_are_below_those_lent_to_outgoing_connections(span: int) -> None:
    base = free_base_port(span)
    assert 20_000 <= base <= 32_000 - span


def test_a_server_does_not_take_the_port_of_a_broker_that_is_down() -> None:
    assert free_base_port(span=8) + 8 <= 24_000 <= free_base_port(span=40)


@pytest.mark.parametrize(
    "arguments", [["start", "--set", "x"], ["start", "--port", "40000"], ["status"], ["kill", "1"]]
)
def test_what_a_user_gets_wrong_is_reported_in_one_line(
    tmp_path: Path, arguments: list[str]
) -> None:
    home = tmp_path / "none"
    result = CliRunner().invoke(commands.cluster, [*arguments, "--home", str(home)])
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert result.output.count("\n") == 1
    assert not home.exists()
