"""The command lines that format and start a node."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from streaming.lab import class_archive, node_logs
from streaming.lab.cluster_config import (
    HOST,
    ClusterError,
    ClusterLayout,
    disk_of,
    kafka_uuid,
    logging_options,
    write_files,
)
from streaming.runtime import jars

MAIN: Final = "kafka.Kafka"
"""The class whose process is a node."""

_FIRST_METADATA: Final = (
    "bootstrap.checkpoint",  # before 4.4
    "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint",
)
"""What a formatted disk has of the cluster's metadata: versions of its features."""

_FORMAT_WITHIN_S: Final = 120.0


def kafka_jars(layout: ClusterLayout) -> list[Path]:
    """The jars of the Kafka release that nodes are started with; fetched if they are missing.

    Raises:
        JarError: Java or a jar is missing and cannot be had.
    """
    if not layout.release:
        return jars.ensure("kafka")
    release = Path(layout.release)
    return jars.ensure("kafka", jars.default_cache() / release.name, declared=release)


def format_disks(layout: ClusterLayout) -> None:
    """Write configurations, and format disks that are not formatted yet.

    Kafka's tool formats the disk of the first node. The others differ by two lines, so they are
    copied, which saves a JVM for each.
    """
    for node in layout.ids:
        write_files(layout, node)
    first, *others = layout.ids
    source = layout.disks(first)[0]
    if not (source / "meta.properties").exists():
        _format_first(layout, first)
    meta = (source / "meta.properties").read_text()
    for node in others:
        for number, target in enumerate(layout.disks(node)):
            if (target / "meta.properties").exists():
                continue
            target.mkdir(parents=True, exist_ok=True)
            for path in _FIRST_METADATA if number == 0 else ():
                if (source / path).exists():
                    (target / path).parent.mkdir(exist_ok=True)
                    shutil.copy(source / path, target / path)
            (target / "meta.properties").write_text(disk_of(node, meta))


def command(layout: ClusterLayout, node: int) -> list[str]:
    """The command line of a node."""
    main = [MAIN, str(layout.folder(node) / "server.properties")]
    return _java(layout, node, main, [*_agent(layout, node), *layout.options(node)])


def _format_first(layout: ClusterLayout, node: int) -> None:
    tool = ["kafka.tools.StorageTool", "format", "--cluster-id", kafka_uuid()]
    tool += ["--config", str(layout.folder(node) / "server.properties")]
    done = subprocess.run(
        _java(layout, node, tool),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_FORMAT_WITHIN_S,
    )
    if done.returncode:
        raise ClusterError(f"cannot format node {node}: {node_logs.reason(done.stdout)}")


def _agent(layout: ClusterLayout, node: int) -> list[str]:
    """The Java option that has a node serve its metrics."""
    if not layout.metrics:
        return []
    [agent] = jars.ensure("jmx")
    rules = jars.declared_in() / "jmx" / "kafka.yml"
    return [f"-javaagent:{agent}={HOST}:{layout.agent_port(node)}:{rules}"]


def _java(
    layout: ClusterLayout, node: int, main: list[str], options: Sequence[str] = ()
) -> list[str]:
    """The command line of a small JVM that starts fast."""
    classpath = ":".join(str(jar) for jar in kafka_jars(layout))
    command = [jars.java(), f"-Xmx{layout.heap}", *jars.QUICK_START, "-Xshare:auto"]
    command += ["-XX:-UsePerfData", jars.temporary_folder()]
    if not layout.release:
        command += class_archive.using(class_archive.of_kafka())
    command += [*logging_options(layout, node), *options, "-cp", classpath]
    return command + main
