"""``kafka-twin cluster``: the local cluster from the command line."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click
from kafka.errors import KafkaError

from streaming.lab.cluster_config import MAX_NODES, ClusterLayout, load
from streaming.lab.consumers import Consumers
from streaming.lab.local_cluster import ClusterError, LocalCluster
from streaming.lab.traffic import STEADY, Traffic
from streaming.runtime import jars
from streaming.runtime.errors import UserError
from streaming.runtime.kafka import clients
from streaming.runtime.liveness import touch_liveness_file
from streaming.runtime.stop import on_stop_signal
from streaming.runtime.terminal import table, width_of

DEFAULT_HOME: Final = Path(".kafka-twin/cluster")
_DEFAULTS: Final = ClusterLayout(DEFAULT_HOME)


class _Group(click.Group):
    """Shows errors that a user can cause as one line, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (UserError, OSError) as error:
            raise click.ClickException(str(error)) from None


def _home(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--home",
        type=click.Path(path_type=Path, file_okay=False),
        default=DEFAULT_HOME,
        show_default=True,
        envvar="KAFKA_TWIN_CLUSTER_HOME",
        help="Folder the cluster lives in.",
    )(command)


def _open(home: Path) -> LocalCluster:
    """The cluster of a home."""
    return LocalCluster.open(_of_demo(home))


def _of_demo(home: Path) -> Path:
    """The home of the cluster; if the path is the home of a demo, the folder of its cluster."""
    below = home.resolve() / "cluster"
    return below if load(home.resolve()) is None and load(below) else home


@click.group(cls=_Group)
def cluster() -> None:
    """Run a local Kafka cluster to try things on.

    Nodes 1, 2, 3 are broker and controller at once; --brokers adds nodes that are broker only. Each
    has its own rack, and all share a folder as remote storage (tiered storage). Nothing but Java 17
    is needed: Kafka's jars are fetched once.

    \b
      kafka-twin cluster start --brokers 2    a cluster of five
      kafka-twin cluster kill 4               broker 4 crashes
      kafka-twin cluster status               who runs, and where
      kafka-twin cluster start                broker 4 comes back
      kafka-twin cluster stop                 all end
    """


@cluster.command()
@_home
@click.option(
    "--nodes",
    type=click.IntRange(1, MAX_NODES),
    help=f"Nodes that are broker and controller.  [default: {_DEFAULTS.nodes}]",
)
@click.option(
    "--brokers",
    type=click.IntRange(0, MAX_NODES - 1),
    help="Further nodes that are broker only: lose as many of them as you like.  [default: 0]",
)
@click.option(
    "--port",
    type=int,
    help=f"Base port: node N listens on this + N.  [default: {_DEFAULTS.base_port}]",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Broker setting of every node, as in server.properties. May be repeated.",
)
@click.option(
    "--metrics/--no-metrics",
    default=None,
    help="Node N serves its JMX metrics on base port + 20 + N.  [default: --metrics]",
)
@click.option(
    "--only", type=int, multiple=True, metavar="N", help="Start only this node. May be repeated."
)
def start(
    home: Path,
    nodes: int | None,
    brokers: int | None,
    port: int | None,
    settings: tuple[str, ...],
    metrics: bool | None,
    only: tuple[int, ...],
) -> None:
    """Start the nodes that are not running.

    The cluster stays when this command ends. A cluster that was stopped comes back with its data,
    and with the options it was started with.
    """
    home = _of_demo(home)
    saved = load(home.resolve()) or _DEFAULTS
    local = LocalCluster(
        home,
        saved.nodes if nodes is None else nodes,
        saved.brokers if brokers is None else brokers,
        saved.base_port if port is None else port,
        {**saved.settings, **dict(_setting(text) for text in settings)},
        saved.heap,
        saved.java_opts,
        saved.metrics if metrics is None else metrics,
        request_logs=saved.request_logs,
    )
    needed = ["kafka", "jmx"] if local.layout.metrics else ["kafka"]
    if missing := [conf for conf in needed if not jars.present(conf)]:
        click.echo("fetching Kafka's jars (37 MiB, this once)")
        for conf in missing:
            jars.ensure(conf)
    ids = set(only or local.layout.ids)
    stopped = [n.id for n in local.status() if n.state == "stopped" and n.id in ids]
    if stopped:
        click.echo(f"starting node{'s' * (len(stopped) > 1)} {', '.join(map(str, stopped))}")
    began = time.monotonic()
    local.start(only or None)
    click.echo(f"ready after {time.monotonic() - began:.1f} s" if stopped else "running already")
    click.echo(f"bootstrap {local.bootstrap}")


@cluster.command()
@_home
@click.option("--wipe", is_flag=True, help="Remove its data as well.")
def stop(home: Path, wipe: bool) -> None:
    """Stop every node, and keep the data.

    With --wipe the data is removed as well.
    """
    local = _open(home)
    if wipe:
        local.wipe()
        click.echo(f"{local.home} removed")
    else:
        local.stop()
        click.echo("stopped")


@cluster.command()
@_home
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def status(home: Path, as_json: bool) -> None:
    """Show state, port, rack and pid of each node.

    A node is running, paused or stopped.
    """
    local = _open(home)
    nodes = local.status()
    if as_json:
        data = {"bootstrap": local.bootstrap, "nodes": [asdict(node) for node in nodes]}
        click.echo(json.dumps(data))
        return
    click.echo(f"bootstrap {local.bootstrap}")
    rows = [
        (node.id, node.state, node.port, node.rack, "" if node.pid is None else node.pid)
        for node in nodes
    ]
    header = ("node", "state", "port", "rack", "pid")
    click.echo(table(header, rows, right={0}, width=width_of(sys.stdout)), nl=False)


def _of_node(name: str, what: str, done: str) -> None:
    """Add a command that does something to one node."""

    @cluster.command(name, help=what)
    @_home
    @click.argument("node", type=int)
    def command(home: Path, node: int) -> None:
        getattr(_open(home), name)(node)
        click.echo(f"node {node} {done}")


_of_node(
    "kill",
    "Crash a node (SIGKILL).\n\nThe controller fences it after 9 seconds and elects new leaders.",
    "killed",
)
_of_node(
    "term",
    "Shut down a node in good order (SIGTERM).\n\nIts leaders move to other brokers first.",
    "has ended",
)
_of_node(
    "pause",
    "Freeze a node (SIGSTOP).\n\nIt still accepts connections, and answers nothing.",
    "paused",
)
_of_node("resume", "Resume a paused node (SIGCONT).", "resumed")


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ClusterError(f"--set {text}: expected KEY=VALUE")
    return key, value


@cluster.command()
@click.option(
    "--bootstrap", required=True, metavar="HOST:PORT,...", help="Where the cluster is reached."
)
@click.option("--health-folder", default="", envvar="KAFKA_TWIN_HEALTH_FOLDER", hidden=True)
def traffic(bootstrap: str, health_folder: str) -> None:
    """Write and read the demo's topics.

    Runs until stopped. Creates the topics if they do not exist and reassigns a partition: not for
    a cluster in use.
    """
    stop = threading.Event()
    with on_stop_signal(stop):
        writer = Traffic(bootstrap)
        try:
            writer.prepare()
        except KafkaError as error:
            raise ClusterError(f"topics or traffic: {clients.one_line(error)}") from None
        click.echo("writing to " + ", ".join(STEADY))
        writer.start()
        readers = Consumers(bootstrap)
        readers.start()
        while not stop.wait(1) and writer.writing():
            touch_liveness_file(health_folder, "traffic")
        readers.stop()
        writer.stop()
