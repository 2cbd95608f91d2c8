"""HDFS: a NameNode and a DataNode on this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pyspark

from streaming.runtime import jars
from tests.waiting import until
from tests.web import get

DECLARED: Final = Path(__file__).with_name("jars")
PORTS: Final = 5
_STARTS_WITHIN_S: Final = 90
_SERVERS: Final = "org.apache.hadoop.hdfs.server"
_OF_PYSPARK: Final = (
    "hadoop-client-api", "hadoop-client-runtime", "slf4j-api", "log4j-api", "log4j-core",
    "log4j-1.2-api", "log4j-slf4j2-impl", "jcl-over-slf4j",
)  # fmt: skip


class Hdfs:
    """An empty file system, in PORTS ports from ``port`` on."""

    def __init__(self, folder: Path, port: int) -> None:
        self.url = f"hdfs://127.0.0.1:{port}"
        self._folder, self._port = folder, port
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Until it takes files."""
        settings = {
            "fs.defaultFS": self.url,
            "dfs.namenode.name.dir": str(self._folder / "name"),
            "dfs.namenode.http-address": f"127.0.0.1:{self._port + 1}",
            "dfs.datanode.data.dir": str(self._folder / "data"),
            "dfs.datanode.address": f"127.0.0.1:{self._port + 2}",
            "dfs.datanode.http.address": f"127.0.0.1:{self._port + 3}",
            "dfs.datanode.ipc.address": f"127.0.0.1:{self._port + 4}",
            "dfs.replication": "1",
            "dfs.permissions.enabled": "false",
        }
        self._folder.mkdir()
        _write(self._folder / "hdfs-site.xml", settings)
        _write(self._folder / "core-site.xml", settings)
        command = [jars.java(), *jars.QUICK_START, "-Xmx256m", "-cp", _classpath(self._folder)]
        subprocess.run(
            [*command, f"{_SERVERS}.namenode.NameNode", "-format", "-nonInteractive"],
            check=True,
            capture_output=True,
            timeout=_STARTS_WITHIN_S,
        )
        with (self._folder / "hdfs.log").open("ab") as log:
            for server in ("namenode.NameNode", "datanode.DataNode"):
                process = subprocess.Popen(
                    [*command, f"{_SERVERS}.{server}"], cwd=self._folder, stdout=log, stderr=log
                )
                self._processes.append(process)
        until(self._takes_files, _STARTS_WITHIN_S, f"no HDFS ({self._folder / 'hdfs.log'})")

    def _takes_files(self) -> bool:
        status, body = get(f"http://127.0.0.1:{self._port + 1}/jmx?qry=Hadoop:*,name=FSNamesystem")
        return status == 200 and '"NumLiveDataNodes" : 1' in body

    def kill(self) -> None:
        """Both servers."""
        for process in self._processes:
            process.kill()
            process.wait(300)


def _classpath(folder: Path) -> str:
    of_pyspark = Path(pyspark.__file__).parent / "jars"
    of_spark = [next(of_pyspark.glob(f"{name}-[0-9]*.jar")) for name in _OF_PYSPARK]
    servers = jars.ensure("hdfs", jars.default_cache(), declared=DECLARED)
    return ":".join(map(str, [folder, *servers, *of_spark]))


def _write(file: Path, settings: Mapping[str, str]) -> None:
    root = ElementTree.Element("configuration")
    for name, value in settings.items():
        one = ElementTree.SubElement(root, "property")
        ElementTree.SubElement(one, "name").text = name
        ElementTree.SubElement(one, "value").text = value
    ElementTree.ElementTree(root).write(file)
