"""The checkpoint is where its URL or path points, and executors can find it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from streaming.query.session import log_file
from streaming.query.state.checkpoint import CheckpointError, location, require_shared
from streaming.runtime.config import Config, QueryConfig
from streaming.runtime.local_folder import local_folder

URLS = (
    "hdfs://namenode:8020/twin", "s3a://bucket/twin", "gs://bucket/twin", "file:///var/twin",
    "abfss://container@account.dfs.core.windows.net/twin", "dbfs:/twin",
)  # fmt: skip


@pytest.mark.parametrize("url", URLS)
def test_a_url_is_left_as_it_is(url: str) -> None:
    assert location(url) == url
    assert location(f"{url}/", "remote-segments") == f"{url}/remote-segments"


@pytest.mark.parametrize("path", ["twin", "./a:b/twin", "/var/twin", "C:/twin"])
def test_a_path_is_a_folder_here_whatever_hadoops_default_is(
    path: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert location(path) == f"file://{tmp_path / path}"
    assert location(path, "remote-segments") == f"file://{tmp_path / path}/remote-segments"
    assert local_folder(path) == tmp_path / path


def test_only_paths_and_file_urls_are_folders_of_this_machine() -> None:
    folders = [local_folder(url) for url in URLS]
    assert [folder for folder in folders if folder] == [Path("/var/twin")]
    for name in ("a b", "a%20b", "a#b?c"):
        assert local_folder(f"file:/var/{name}") == Path("/var", name)
        assert local_folder(location(f"/var/{name}")) == Path("/var", name)


@pytest.mark.parametrize(
    "master", ["spark://host:7077", "yarn", "k8s://https://host", "local-cluster[2,1,1024]"]
)
@pytest.mark.parametrize("checkpoint", ["/var/twin", "file:///var/twin"])
def test_a_folder_that_executors_may_lack_is_refused_unless_it_is_shared(
    master: str, checkpoint: str
) -> None:
    with pytest.raises(CheckpointError, match="/var/twin is a folder of this machine"):
        require_shared(checkpoint, master, is_shared=False)
    require_shared(checkpoint, master, is_shared=True)
    require_shared("s3a://bucket/twin", master, is_shared=False)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*,12]"])
def test_any_checkpoint_will_do_in_one_process(master: str) -> None:
    require_shared("/var/twin", master, is_shared=False)


@pytest.mark.parametrize(
    ("checkpoint", "file"),
    [("/var/twin/checkpoint", "/var/twin/spark.log"), ("s3a://bucket/twin", "spark.log")],
)
def test_sparks_own_log_is_on_this_machine(checkpoint: str, file: str) -> None:
    assert log_file(Config(query=QueryConfig(checkpoint=checkpoint))) == Path(file).absolute()
