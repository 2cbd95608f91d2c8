"""The command line: each command loads the configuration and calls one function.

A command imports its program when it runs, so that the collector starts without Spark, and a script
that calls one command does not wait for the imports of all.
"""

from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal

import click
import msgspec

from streaming.runtime.config import Config, ConfigError
from streaming.runtime.configuration.chosen import (
    OF_NO_CLUSTER,
    Chosen,
    chosen,
    naming,
    with_cluster,
)
from streaming.runtime.configuration.following import Followed
from streaming.runtime.errors import UserError
from streaming.runtime.stop import on_stop_signal

_IMPORTED: Final = {
    "capsule": "streaming.cli.capsule",
    "cluster": "streaming.lab.commands",
    "diff": "streaming.cli.diff",
    "gate": "streaming.cli.gate",
    "grafana": "streaming.grafana.commands",
    "mcp": "streaming.cli.mcp",
    "plan": "streaming.cli.plan",
    "report": "streaming.cli.report",
    "tap": "streaming.tap.commands",
    "whatif": "streaming.cli.whatif",
}
"""Commands with a module of their own: the name, and the module with a command of that name."""


class _Group(click.Group):
    """Prints a ``UserError`` as one line; any other exception is a bug and shows its traceback.

    A command of ``_IMPORTED`` is imported when it is called, or when all are listed.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_IMPORTED])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _IMPORTED:
            command = getattr(import_module(_IMPORTED[cmd_name]), cmd_name)
        else:
            command = super().get_command(ctx, cmd_name)
        return command if command is None or cmd_name in OF_NO_CLUSTER else with_cluster(command)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            raise click.ClickException(naming(chosen(ctx).cluster, str(error))) from None


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    "-c",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="KAFKA_TWIN_CONFIG",
    help="TOML file; docs/config.toml explains every key.",
)
@click.option("--verbose", "-v", is_flag=True, help="Log what the libraries do as well.")
@click.version_option(package_name="kafka-twin")
@click.pass_context
def main(ctx: click.Context, config: Path | None, verbose: bool) -> None:
    """A live digital twin of every partition of a Kafka cluster.

    It predicts who leads each partition if a broker is lost now, how safe that leader is, and
    whether it has enough data on its local disk to serve consumers.

    Try it without a cluster of your own: kafka-twin demo
    """
    from streaming.runtime import logs

    logs.configure(verbose)
    ctx.obj = Chosen(config)


def _config(ctx: click.Context) -> Config:
    return chosen(ctx).config()


def _of_program(ctx: click.Context) -> Config:
    """The configuration of a program that runs on, which says at its start what made it."""
    from streaming.runtime.logs import say_what_wins

    config = _config(ctx)
    say_what_wins(chosen(ctx).path)
    return config


def _followed(ctx: click.Context) -> Followed:
    """The same of all clusters, or of the one that ``--cluster`` names, as they come and go."""
    from streaming.runtime.logs import say_what_wins

    say_what_wins(chosen(ctx).path)
    return chosen(ctx).followed()


@main.command()
@click.pass_context
def collector(ctx: click.Context) -> None:
    """Poll brokers; write observations to the bus."""
    from streaming.collector.fleet.program import run

    run(_followed(ctx), chosen(ctx).path)


@main.group(invoke_without_command=True)
@click.pass_context
def query(ctx: click.Context) -> None:
    """Run the Spark query over the observations.

    It reads observations from the bus and writes snapshots and events to it.
    """
    if ctx.invoked_subcommand is None:
        from streaming.query.program import run

        run(_followed(ctx))


@query.command()
@click.argument("partitions", type=click.IntRange(min=1))
@click.pass_context
def repartition(ctx: click.Context, partitions: int) -> None:
    """Change the number of state partitions.

    Each partition is a task of a batch, so more of them use more cores. The query must be stopped;
    its state stays as it is.
    """
    from streaming.query.state.repartition import repartition as rewrite

    followed = chosen(ctx).followed()
    rewrite(followed.common, partitions, click.echo, is_fleet=followed.is_fleet)


@main.command()
@click.pass_context
def archive(ctx: click.Context) -> None:
    """Write the past of all clusters as tables.

    It reads snapshots and events from the bus, and writes to archive.path.
    """
    from streaming.archive.program import run

    run(_followed(ctx))


@main.command()
@click.pass_context
def exporter(ctx: click.Context) -> None:
    """Serve /metrics, the API and the web page.

    All of it is read from the snapshots on the bus.
    """
    from streaming.exporter.server import run

    run(_followed(ctx))


@main.command()
@click.option(
    "--fail-open/--fail-closed",
    default=None,
    help="An unknown answer lets a pod go, with a warning, or keeps it; by default as "
    "admission.when_unknown says.",
)
@click.pass_context
def admission(ctx: click.Context, fail_open: bool | None) -> None:
    """Let broker pods go only when it is safe.

    A validating webhook on evictions and deletions of pods, which asks the exporter's gate.
    """
    from streaming.admission.program import run

    config = _of_program(ctx)
    section = config.admission
    if fail_open is not None:
        unknown: Literal["admit", "refuse"] = "admit" if fail_open else "refuse"
        section = msgspec.structs.replace(section, when_unknown=unknown)
    exporter = section.exporter.rstrip("/") + chosen(ctx).below
    section = msgspec.structs.replace(section, exporter=exporter)
    run(msgspec.structs.replace(config, admission=section))


@main.command()
@click.pass_context
def run(ctx: click.Context) -> None:
    """Run collector, query and exporter together.

    The archive runs as well if archive.path is set. A program that ends is restarted after a pause.
    Of several clusters each program serves all, or the one that --cluster names.
    """
    from streaming.runtime.supervise import children, supervise

    config = chosen(ctx).common()  # fails once here, instead of repeatedly in three programs
    stop = threading.Event()
    arguments = chosen(ctx).arguments
    with on_stop_signal(stop):
        supervise(children(arguments, archive=bool(config.archive.path)), stop)


@main.command()
@click.argument("topic", type=click.Choice(["observations", "snapshots", "events"]))
@click.option(
    "--from",
    "start",
    type=click.Choice(["beginning", "end"]),
    default="end",
    show_default=True,
    help="Where to start reading.",
)
@click.option("--max", "limit", type=click.IntRange(min=1), help="Stop after this number of lines.")
@click.pass_context
def tail(ctx: click.Context, topic: str, start: str, limit: int | None) -> None:
    """Print messages of a bus topic, a line each."""
    from streaming.cli.tail import tail as follow

    follow(_config(ctx), topic, start, limit, sys.stdout)


@main.command()
@click.option(
    "--acls",
    "principal",
    metavar="PRINCIPAL",
    help="Only print calls of kafka-acls.sh that grant the rights, e.g. to User:kafka-twin; where "
    "the login is AWS_MSK_IAM, the policy of AWS that does.",
)
@click.pass_context
def check(ctx: click.Context, principal: str | None) -> None:
    """Check configuration, connectivity and ACLs.

    Lists what is there, what is missing, and which features are unavailable without it; at the end
    whether the twin can run. It creates the three topics of the twin where they are missing. Of
    several clusters it prints a line each, the worst first; with --cluster all of one.
    """
    from streaming.checks import check as checked
    from streaming.checks.fleet_checks import check_all
    from streaming.checks.rights import commands
    from streaming.runtime.configuration.loading import read

    clusters = read(chosen(ctx).path)
    if principal is None and not chosen(ctx).cluster and len(clusters.names) > 1:
        if not check_all(clusters, sys.stdout):
            ctx.exit(1)
    elif principal is not None:
        for line in commands(_config(ctx), principal):
            click.echo(line)
    elif not checked(_config(ctx), sys.stdout):
        ctx.exit(1)


@main.command("spark-package")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--master",
    required=True,
    metavar="MASTER",
    help="As for spark-submit: spark://HOST:PORT, yarn, or k8s://https://HOST:PORT.",
)
@click.pass_context
def spark_package(ctx: click.Context, folder: Path, master: str) -> None:
    """Pack the query for a Spark platform.

    FOLDER gets this Python environment, packed, and Spark's jars for Kafka. The spark-submit line
    that starts the query from there is printed. The platform's machines need Spark 4.2, Java 17
    and the same version of Python. Kubernetes has an image instead: nothing is written.
    """
    from streaming.packing.package import write
    from streaming.packing.submit_lines import kind
    from streaming.query.logins.java_iam import jars_for
    from streaming.query.state.checkpoint import require_shared
    from streaming.runtime.configuration.variables import given_by

    followed = chosen(ctx).followed()
    config, buses = followed.common, [each.bus_client for each in followed.configs.values()]
    if kind(master) != "k8s":  # there the driver gets its settings as variables
        require_shared(config.query.checkpoint, master, config.query.checkpoint_shared)
    if kind(master) == "yarn" and (given := given_by(os.environ)):
        click.echo(
            f"Not part of the command: {', '.join(given)}. A driver on YARN reads twin.toml alone; "
            "for each of them add --conf spark.yarn.appMasterEnv.NAME=VALUE.",
            err=True,
        )
    click.echo(write(folder, master, chosen(ctx).path, jars_for(buses)))


@main.command()
@click.option("--seconds", type=click.FloatRange(min=1), help="Stop after this number of seconds.")
@click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".kafka-twin/demo"),
    show_default=True,
    help="Folder of the demo's files.",
)
@click.option(
    "--port",
    type=click.IntRange(1024, 32_700),
    default=29_090,
    show_default=True,
    help="Base port of the brokers.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1024, 65_532),
    default=9_410,
    show_default=True,
    help="Port of the exporter; the three after it serve metrics of the other programs.",
)
@click.option(
    "--prometheus-port",
    type=click.IntRange(1024, 32_700),
    default=9_490,
    show_default=True,
    help="Port of Prometheus, if installed; Alertmanager listens on this port + 3.",
)
@click.option(
    "--script",
    "scripts",
    multiple=True,
    type=click.Choice(["failover", "cold-leader", "warm-order", "stuck-bootstrap", "slow-leader"]),
    help="Play an incident, print prediction, what Kafka did and a report, and end; repeatable.",
)
@click.option(
    "--clusters",
    type=click.IntRange(1, 5),
    default=1,
    show_default=True,
    help="Show a fleet: all but the first cluster have one broker.",
)
@click.pass_context
def demo(ctx: click.Context, seconds: float | None, home: Path, port: int, metrics_port: int,
         prometheus_port: int, scripts: tuple[str, ...], clusters: int) -> None:  # fmt: skip
    """Show the twin of a local Kafka cluster.

    Starts a cluster with tiered storage and traffic, and the twin of it, and shows what the twin
    finds. Only Java 17 needs to be installed. Ctrl-C stops every process; configuration, data and
    logs stay in the folder --home until the next demo there.
    """
    from streaming.lab.demo import Ports
    from streaming.lab.demo import demo as show

    if chosen(ctx).path is not None:
        raise ConfigError("the demo brings its own configuration: omit --config")
    ports = Ports(port, metrics_port, prometheus_port, prometheus_port + 3)
    if clusters == 1:
        show(home, ports, seconds=seconds, scripts=scripts)
        return
    if scripts:
        raise ConfigError("--script plays an incident of one cluster: omit --clusters")
    from streaming.lab.fleet_demo import fleet_demo

    fleet_demo(home, ports, clusters, seconds=seconds)
