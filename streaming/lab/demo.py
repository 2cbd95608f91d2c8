"""``kafka-twin demo``: a cluster with traffic, its twin, and a screen with the twin's results.

All files are below one folder, the home. Every process ends with the demo; the configuration, data
and logs stay in the home until the next demo there.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from kafka.errors import KafkaError

from streaming.lab import class_archive, prometheus
from streaming.lab.cluster_config import ClusterLayout
from streaming.lab.consumers import Consumers
from streaming.lab.local_cluster import LocalCluster
from streaming.lab.screen import draw
from streaming.lab.scripts.by_name import SCRIPTS
from streaming.lab.scripts.scenarios import LAG_MS
from streaming.lab.scripts.script_report import as_text, report_since
from streaming.lab.scripts.stage import ScriptFailed, Stage
from streaming.lab.traffic import ENOUGH_BYTES, Traffic
from streaming.runtime import jars
from streaming.runtime.deadline import Deadline
from streaming.runtime.errors import UserError
from streaming.runtime.kafka import clients
from streaming.runtime.stop import on_stop_signal
from streaming.runtime.supervise import Child, children, supervised
from streaming.runtime.terminal import width_of

FIRST_SNAPSHOT_WITHIN_S: Final = 180
LINE_EVERY_S: Final = 10
"""How often the summary is printed if the screen cannot be redrawn."""

_CONFIG: Final = """\
# Made by the demo; docs/config.toml explains every key.
[cluster]
name = "demo"
bootstrap = "{bootstrap}"

[bus]
partitions = 2
replication_factor = 3
shards = 4

[collector]
interval_ms = 2000
deadline_ms = 1500
config_interval_ms = 10000
metrics_interval_ms = 2000
groups_interval_ms = 2000

[collector.metrics_urls]
{metrics_urls}

[eligibility] # a threshold of KIP-1303 for logs that are some minutes old
local_log_bytes = {enough_bytes}

[query]
checkpoint = "{checkpoint}"
trigger_ms = 500

[exporter]
port = {ports.metrics}

[gate] # reports say what it was asked
record = true

[metrics]
tap_port = {ports.tap}
collector_port = {ports.collector}
query_port = {ports.query}
{archive}
"""

ARCHIVE = """
[archive] # the past, so that the exporter answers at=
path = "{path}"
trigger_ms = 10000
measurements_ms = 10000
"""


class DemoFailed(UserError, RuntimeError):  # noqa: N818 - said to a person
    """The demo could not be shown: one line with the reason and where to look."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of the demo."""

    brokers: int  # and the thirty after it
    metrics: int  # of the exporter, and the three after it of the other programs
    prometheus: int
    alertmanager: int

    @property
    def tap(self) -> int:
        """The port at which the tap serves metrics about itself."""
        return self.metrics + 1

    @property
    def collector(self) -> int:
        """The port at which the collector serves metrics about itself."""
        return self.metrics + 2

    @property
    def query(self) -> int:
        """The port at which the query serves metrics about itself."""
        return self.metrics + 3


def demo(home: Path, ports: Ports, *, seconds: float | None, scripts: Sequence[str] = ()) -> None:
    """Run the demo until Ctrl-C, for ``seconds``, or until all scripts have been played.

    Raises:
        DemoFailed, ClusterError, JarError: one line each.
    """
    began = time.monotonic()
    home = home.resolve()
    with begun(home, began) as (stack, stop, say):
        lag = {"replica.lag.time.max.ms": str(LAG_MS)} if "slow-leader" in scripts else {}
        cluster = LocalCluster(
            home / "cluster", base_port=ports.brokers, settings=lag, request_logs=True
        )
        cluster.wipe()
        stack.callback(cluster.stop)
        say("starting three Kafka brokers with tiered storage in racks az-a, az-b, az-c")
        cluster.start()
        traffic = Traffic(cluster.bootstrap)
        stack.callback(traffic.stop)
        # Scripts are about brokers; a second Spark would slow them down. Their report is made of
        # the observations, which the bus keeps for an hour.
        archive = home / "twin" / "archive" if not scripts and reads_archives() else None
        config = _write_config(home, cluster.layout, ports, archive)
        say("starting collector, tap of the brokers' logs, Spark query and exporter")
        logs = home / "twin" / "logs"
        programs = children(["--config", str(config)], logs, archive=archive is not None)
        programs += [tap_of(cluster.layout, config, logs), *alerting(home, ports, say)]
        stack.enter_context(supervised(programs))
        say("making topics, traffic, and a replica that holds little of its log")
        try:
            traffic.prepare()
        except KafkaError as error:
            raise DemoFailed(f"topics or traffic: {error}; see {cluster.home}") from None
        traffic.start()
        if not scripts:  # scripts are about brokers; consumers would slow them down
            consumers = Consumers(cluster.bootstrap)
            stack.callback(consumers.stop)
            consumers.start()
        say("waiting for the first snapshot")
        url = f"http://127.0.0.1:{ports.metrics}"
        _await_up(url, home, stop)
        say("the twin is live")
        alerts = f"http://127.0.0.1:{ports.prometheus}" if prometheus.available() else None
        if scripts:
            urls = cluster.layout.metrics_urls
            began_ms = time.time_ns() // 1_000_000
            _play(scripts, Stage(cluster, url, alerts, say, stop, config, urls))
            _report(began_ms, config, home, say)
        else:
            end = None if seconds is None else Deadline(began + seconds)
            _show(url, alerts, home, cluster, stop, end)


@contextlib.contextmanager
def begun(
    home: Path, began_s: float
) -> Iterator[tuple[contextlib.ExitStack, threading.Event, Progress]]:
    """What begins and ends every demo. What is put on the stack ends with the block.

    Gives the stack, the event that Ctrl-C sets, and what prints lines.
    """
    clients.quiet()  # brokers are lost here on purpose
    os.environ.update(class_archive.quick_spark() | os.environ)
    stop, say = threading.Event(), Progress(began_s)
    with contextlib.ExitStack() as stack:
        stack.enter_context(on_stop_signal(stop))
        say("looking for the jars of Kafka and of Spark's connector (fetched once)")
        for conf in ("spark", "kafka", "jmx"):
            jars.ensure(conf)
        shutil.rmtree(home / "twin", ignore_errors=True)
        yield stack, stop, say
        print("\nstopping ...", flush=True)
    print("stopped: no process and no port is left", flush=True)


def tap_of(cluster: ClusterLayout, config: Path, logs: Path, *chosen: str) -> Child:
    """One tap for all brokers, since their logs are on one machine.

    With several clusters ``chosen`` are the arguments that name the one.

    It reads them from the beginning: a fetch session names all its partitions in its first request.
    """
    inputs = [f"{node}={log}" for node in cluster.ids for log in cluster.logs(node)]
    command = [sys.executable, "-m", "streaming", "--config", str(config), "tap", "follow",
               *chosen, "--from-beginning", *inputs]  # fmt: skip
    return Child("tap", command, log_file=logs / "tap.log")


def alerting(home: Path, ports: Ports, say: Callable[[str], None]) -> list[Child]:
    """Prometheus and Alertmanager if installed."""
    if not prometheus.available():
        say(prometheus.HOW)
        return []
    say(f"alerts wait {prometheus.WAITS_CUT_TO_S} s at most here, not minutes")
    folder = home / "twin" / "prometheus"
    scraped = (ports.metrics, ports.tap, ports.collector, ports.query)
    return prometheus.programs(folder, scraped, ports.prometheus, ports.alertmanager)


def _play(scripts: Sequence[str], stage: Stage) -> None:
    for name in scripts:
        stage.say(f"script {name}: {(SCRIPTS[name].__doc__ or '').strip()}")
        try:
            SCRIPTS[name](stage)
        except (ScriptFailed, KafkaError) as error:
            raise DemoFailed(f"script {name}: {error}") from None
        stage.say(f"script {name} came true")
    try:
        stage.await_alerts_resolved()
    except ScriptFailed as error:
        raise DemoFailed(str(error)) from None


def _report(since_ms: int, config: Path, home: Path, say: Callable[[str], None]) -> None:
    """Print what happened while the scripts were played, as ``kafka-twin report`` tells it."""
    capsule, file = home / "scripts.capsule", home / "scripts.md"
    try:
        report = report_since(since_ms, config, capsule)
        file.write_text(report)
    except (UserError, KafkaError) as error:
        raise DemoFailed(f"report: {error}") from None
    say("what happened, as kafka-twin report tells it:\n")
    print(as_text(report))
    say(
        f"with links: {os.path.relpath(file)}, and kafka-twin capsule open "
        f"{os.path.relpath(capsule)} shows each moment of it"
    )


class Progress:
    """Prints each stage on a line of its own, with the seconds since the start."""

    def __init__(self, began: float) -> None:
        self._began = began

    def __call__(self, stage: str) -> None:
        print(f"[{time.monotonic() - self._began:5.1f} s] {stage}", flush=True)


def reads_archives() -> bool:
    """Whether what reads and writes an archive is installed."""
    return importlib.util.find_spec("deltalake") is not None


def _write_config(
    home: Path, cluster: ClusterLayout, ports: Ports, archive: Path | None = None
) -> Path:
    path = home / "twin" / "kafka-twin.toml"
    (home / "twin" / "logs").mkdir(parents=True, exist_ok=True)
    path.write_text(
        _CONFIG.format(
            bootstrap=cluster.bootstrap,
            metrics_urls="\n".join(f'{b} = "{url}"' for b, url in cluster.metrics_urls.items()),
            ports=ports,
            checkpoint=home / "twin" / "checkpoint",
            enough_bytes=ENOUGH_BYTES,
            archive="" if archive is None else ARCHIVE.format(path=archive),
        )
    )
    return path


def _await_up(url: str, home: Path, stop: threading.Event) -> None:
    deadline = Deadline.after_s(FIRST_SNAPSHOT_WITHIN_S)
    while not stop.is_set():
        answer = answer_of(f"{url}/api/v1/summary")
        if answer is not None and answer["up"]:
            return
        if deadline.is_over:
            raise DemoFailed(f"no snapshot after {FIRST_SNAPSHOT_WITHIN_S} s; see {home}/twin/logs")
        stop.wait(0.3)


def _show(
    url: str, alerts: str | None, home: Path, cluster: LocalCluster, stop: threading.Event,
    end: Deadline | None,
) -> None:  # fmt: skip
    """Show the screen until the end."""

    def screen() -> str | None:
        summary, brokers = answer_of(f"{url}/api/v1/summary"), answer_of(f"{url}/api/v1/brokers")
        risky = answer_of(f"{url}/api/v1/partitions?at_risk=true&limit=12")
        if summary is None or brokers is None or risky is None:
            return None
        return draw(
            summary, brokers["brokers"], risky, url, alerts, typed(home), cluster.bootstrap,
            typed(program()), width_of(sys.stdout),
        )  # fmt: skip

    redraw(screen, stop, end)


def redraw(screen: Callable[[], str | None], stop: threading.Event, end: Deadline | None) -> None:
    """Redraw a screen each second; without a terminal, print it every LINE_EVERY_S.

    It is None while the exporter does not answer.
    """
    live = sys.stdout.isatty()
    while not stop.is_set() and (end is None or not end.is_over):
        text = screen() or "the exporter does not answer; it is being started again\n"
        print(f"\x1b[H\x1b[J{text}" if live else text, flush=True)
        pause = 1.0 if live else LINE_EVERY_S
        if end is not None:
            pause = max(min(pause, end.left_s), 0.05)
        stop.wait(pause)


def program() -> Path:
    """The command of this program: only its name if it is on the PATH, else its path."""
    beside = Path(sys.executable).with_name("kafka-twin")
    on_path = shutil.which("kafka-twin")
    return Path("kafka-twin") if on_path and Path(on_path) == beside else beside


def typed(path: Path) -> str:
    """The path relative to the working directory, if it is below that."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def answer_of(url: str) -> Any:
    """What the exporter answers; None if it does not."""
    try:
        with urllib.request.urlopen(url, timeout=3) as answer:
            return msgspec.json.decode(answer.read())
    except (urllib.error.URLError, OSError, msgspec.DecodeError):
        return None
