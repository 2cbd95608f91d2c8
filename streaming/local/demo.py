"""``kafka-twin demo``: a cluster, traffic, the twin of it, and a screen that says what it sees.

Everything lives below one folder and ends with the demo; what it was told stays there to be read.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from kafka.errors import KafkaError

from streaming.local import jars
from streaming.local.cluster import LocalCluster
from streaming.local.cluster_config import Layout
from streaming.local.screen import draw
from streaming.local.traffic import ENOUGH_BYTES, Traffic
from streaming.supervise import children, supervise

FIRST_SNAPSHOT_WITHIN_S: Final = 180
LINE_EVERY_S: Final = 10
"""How often the summary is printed where the screen cannot be redrawn."""

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

[collector.metrics_urls]
{metrics_urls}

[eligibility] # KIP-1303: a replica with less local log than both is passed over
local_log_bytes = {enough_bytes}

[[eligibility.topics]]
pattern = "clicks|audit|scratch|__.*|kafka-twin.*"
local_log_bytes = -1

[query]
checkpoint = "{checkpoint}"
trigger_ms = 500

[exporter]
port = {port}
"""


class DemoFailed(RuntimeError):  # noqa: N818 - said to a person
    """The demo could not be shown: one line with the reason and where to look."""


def demo(home: Path, *, base_port: int, metrics_port: int, seconds: float | None) -> None:
    """Show it until Ctrl-C, or for so long.

    Raises:
        DemoFailed, ClusterError, JarError: one line each.
    """
    began = time.monotonic()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    home = home.resolve()
    say = _Progress(began)
    say("fetching the jars of Kafka and of Spark's connector (once)")
    for conf in jars.CONFS:
        jars.ensure(conf)
    shutil.rmtree(home / "twin", ignore_errors=True)
    cluster = LocalCluster(home / "cluster", base_port=base_port)
    with contextlib.ExitStack() as stack:
        cluster.wipe()
        stack.callback(cluster.stop)
        say("starting three Kafka brokers with tiered storage in racks az-a, az-b, az-c")
        cluster.start()
        traffic = Traffic(cluster.bootstrap)
        stack.callback(traffic.stop)
        config = _write_config(home, cluster.layout, metrics_port)
        say("starting collector, Spark query and exporter")
        stack.enter_context(_supervised(config, home / "twin" / "logs", stop))
        say("making topics, traffic, and a replica that holds little of its log")
        try:
            traffic.prepare()
        except KafkaError as error:
            raise DemoFailed(f"topics or traffic: {error}; see {cluster.home}") from None
        traffic.start()
        say("waiting for the first snapshot")
        url = f"http://127.0.0.1:{metrics_port}"
        _await_up(url, home, stop)
        say("the twin is live")
        _show(url, home, cluster, stop, began, seconds)
        print("\nstopping ...", flush=True)
    print("stopped: no process and no port is left", flush=True)


class _Progress:
    """A line a stage, with the seconds since the start."""

    def __init__(self, began: float) -> None:
        self._began = began

    def __call__(self, stage: str) -> None:
        print(f"[{time.monotonic() - self._began:5.1f} s] {stage}", flush=True)


def _write_config(home: Path, cluster: Layout, port: int) -> Path:
    path = home / "twin" / "kafka-twin.toml"
    (home / "twin" / "logs").mkdir(parents=True, exist_ok=True)
    path.write_text(
        _CONFIG.format(
            bootstrap=cluster.bootstrap,
            metrics_urls="\n".join(f'{b} = "{url}"' for b, url in cluster.metrics_urls.items()),
            port=port,
            checkpoint=home / "twin" / "checkpoint",
            enough_bytes=ENOUGH_BYTES,
        )
    )
    return path


@contextlib.contextmanager
def _supervised(config: Path, logs: Path, stop: threading.Event) -> Iterator[None]:
    """The three programs in the background, ended on leaving."""
    programs = children(["--config", str(config)], logs)
    ended = threading.Event()
    thread = threading.Thread(target=supervise, args=(programs, ended), name="supervise")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        ended.set()
        thread.join()


def _await_up(url: str, home: Path, stop: threading.Event) -> None:
    deadline = time.monotonic() + FIRST_SNAPSHOT_WITHIN_S
    while not stop.is_set():
        answer = _get(f"{url}/api/v1/summary")
        if answer is not None and answer["up"]:
            return
        if time.monotonic() > deadline:
            raise DemoFailed(f"no snapshot after {FIRST_SNAPSHOT_WITHIN_S} s; see {home}/twin/logs")
        stop.wait(0.3)


def _show(
    url: str, home: Path, cluster: LocalCluster, stop: threading.Event, began: float,
    seconds: float | None,
) -> None:  # fmt: skip
    """Redraw the screen each second; print it now and then where there is none."""
    live = sys.stdout.isatty()
    while not stop.is_set() and (seconds is None or time.monotonic() - began < seconds):
        summary, brokers = _get(f"{url}/api/v1/summary"), _get(f"{url}/api/v1/brokers")
        risky = _get(f"{url}/api/v1/partitions?at_risk=true&limit=12")
        if summary is None or brokers is None or risky is None:
            text = "the exporter does not answer; it is being started again\n"
        else:
            text = draw(summary, brokers["brokers"], risky, url, str(home), cluster.bootstrap)
        print(f"\x1b[H\x1b[J{text}" if live else text, flush=True)
        pause = 1.0 if live else LINE_EVERY_S
        if seconds is not None:
            pause = max(min(pause, seconds - (time.monotonic() - began)), 0.05)
        stop.wait(pause)


def _get(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=3) as answer:
            return msgspec.json.decode(answer.read())
    except (urllib.error.URLError, OSError, msgspec.DecodeError):
        return None
