"""The collector of several clusters, which come, go and change while it runs.

What is common is read once: the port for metrics, and the folder of liveness files. The file there
is touched while any cluster's thread gets on: a restart, which all would have to bear, helps when
none does. ``/healthz`` names each that does not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import structlog

from streaming.bus.arrow import use_little_memory
from streaming.collector.cycle import program as of_one_cluster
from streaming.collector.fleet.division import Division, require_one_bus
from streaming.collector.fleet.polled import AGAIN_AFTER_S, END_WITHIN_S, PolledCluster
from streaming.runtime.config import Config
from streaming.runtime.configuration.following import Followed
from streaming.runtime.deadline import Deadline
from streaming.runtime.exposition.application import Registry
from streaming.runtime.liveness import touch_liveness_file
from streaming.runtime.program_metrics import served
from streaming.runtime.stop import on_hangup_signal, on_stop_signal

LOOK_EVERY_S: Final = 1.0
_MOST_NAMED: Final = 10

log = structlog.get_logger("collector")


def run(followed: Followed, path: Path | None = None) -> None:
    """Collect until SIGTERM or SIGINT; running cycles are completed.

    A configuration of one cluster is collected in the main thread.

    Args:
        followed: the clusters. SIGHUP lets it read files that seem unchanged.
        path: the configuration file, of which one cluster's thresholds are read again.

    Raises:
        MetricsPortError: the port for metrics cannot be used.
        CollectorError, BusError, ConfigError: the only cluster cannot be collected.
        ConfigError: clusters are to be divided, and do not share a bus.
    """
    if not followed.is_fleet:
        of_one_cluster.run(followed.common, path)
        return
    use_little_memory()
    common, stop, hangup = followed.common, threading.Event(), threading.Event()
    division = _division(followed)
    polled, at = PolledClusters(), common.metrics

    def why_unhealthy() -> str:
        undivided = "" if division is None else division.why_unhealthy()
        return "; ".join(filter(None, (undivided, polled.why_unhealthy())))

    with (
        on_stop_signal(stop),
        on_hangup_signal(hangup.set),
        served(
            polled.registry, at.host, at.collector_port, "metrics.collector_port", why_unhealthy
        ),
    ):
        while not stop.is_set():
            configs = followed.configs
            polled.follow(
                configs if division is None else division.part_of(configs), followed.why_not
            )
            if not polled.clusters:  # none has its turn to touch it
                touch_liveness_file(common.health.folder, "collector")
            stop.wait(LOOK_EVERY_S)
            again = hangup.is_set()
            hangup.clear()
            followed.look(again=again)
        deadline = Deadline.after_s(END_WITHIN_S)
        if division is not None:
            division.leave()
        polled.end(deadline)
        if division is not None:
            division.wait(deadline)
    log.info("stopped")


def _division(followed: Followed) -> Division | None:
    """The part of this collector, if it is one of several; the one of a chosen cluster is not."""
    if followed.cluster or not followed.common.fleet.collector_group:
        return None
    require_one_bus(followed.configs.values())
    return Division(followed.common)


class PolledClusters:
    """The clusters that this process polls, by name."""

    def __init__(self, again_after_s: float = AGAIN_AFTER_S) -> None:
        """Poll none yet; ``again_after_s`` is the pause after one could not be reached."""
        self.registry = Registry()
        self._again_after_s = again_after_s
        self.clusters: dict[str, PolledCluster] = {}
        """By name: those that have a thread."""

    def follow(self, configs: Mapping[str, Config], why_not: Callable[[str], str]) -> None:
        """Begin with what is new, end what is gone, and begin anew with what has changed.

        A cluster that has changed is begun once its thread has ended, so it is polled by one; a
        thread that hangs is left behind after a while.

        Args:
            configs: of the clusters, by name.
            why_not: why a cluster is not what its files say; empty: it is.
        """
        for name, polled in [*self.clusters.items()]:
            config = configs.get(name)
            if config is not None and polled.is_polled_by(config):
                polled.thresholds.give(config.eligibility, why_not(name))
                continue
            polled.end()
            if polled.is_over:
                del self.clusters[name]
                if config is None:
                    polled.forget()
                    log.info("no longer polled", cluster=name)
        for name in configs.keys() - self.clusters.keys():
            self.clusters[name] = PolledCluster(configs[name], self.registry, self._again_after_s)

    def why_unhealthy(self) -> str:
        """A part of a sentence for each cluster that stands still; empty while all get on."""
        each = {name: polled.why_unhealthy() for name, polled in [*self.clusters.items()]}
        parts = [f"{name}: {why}" for name, why in sorted(each.items()) if why]
        more = len(parts) - _MOST_NAMED
        return "; ".join(parts[:_MOST_NAMED] + ([f"and {more} more"] if more > 0 else []))

    def end(self, deadline: Deadline) -> None:
        """End all, and leave behind what has not ended at the deadline."""
        for polled in self.clusters.values():
            polled.end()
        late = [name for name, polled in self.clusters.items() if not polled.wait(deadline)]
        if late:
            log.warning("left behind", clusters=", ".join(sorted(late)))
