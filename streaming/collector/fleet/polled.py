"""One of several clusters, polled in a thread of its own."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

import structlog

from streaming.collector.cycle.metrics import CycleMetrics
from streaming.collector.cycle.program import poll
from streaming.collector.fleet.phases import begun_s_ago
from streaming.collector.settings.given_thresholds import GivenThresholds
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from streaming.runtime.errors import UserError
from streaming.runtime.exposition.application import Registry
from streaming.runtime.liveness import touch_liveness_file

AGAIN_AFTER_S: Final = 10.0
"""When a cluster that could not be reached is tried again."""

END_WITHIN_S: Final = 10.0
"""Pods of collectors have 15 s (``terminationGracePeriodSeconds``)."""

log = structlog.get_logger("collector")


class PolledCluster:
    """The thread that polls a cluster, until ``end``. An error makes it pause and try again.

    The thread does not keep the process: what hangs in it is left behind.
    """

    def __init__(self, config: Config, registry: Registry, again_after_s: float) -> None:
        """Begin.

        Args:
            config: of the cluster.
            registry: with the metrics of other clusters.
            again_after_s: the pause after it could not be reached.
        """
        name = config.cluster.name
        self.thresholds = GivenThresholds(config.eligibility)
        self._metrics = CycleMetrics(name, config.collector.interval_ms, registry)
        self._config, self._again_after_s = config, again_after_s
        self._said, self._stop = "", threading.Event()
        self._end_by = Deadline.after_s(0)
        self._thread = threading.Thread(target=self._work, name=f"cluster {name}", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether its thread has ended after ``end``, or hangs and is left behind."""
        return not self._thread.is_alive() or (self._stop.is_set() and self._end_by.is_over)

    def is_polled_by(self, config: Config) -> bool:
        """Whether that configuration would be polled alike; thresholds are given meanwhile."""
        return not self._stop.is_set() and _read_at_start(config) == _read_at_start(self._config)

    def why_unhealthy(self) -> str:
        """One sentence; empty while brokers answer and the bus takes observations."""
        return "" if self._stop.is_set() else self._said or self._metrics.why_unhealthy()

    def end(self) -> None:
        """Begin no further cycle."""
        if not self._stop.is_set():
            self._end_by = Deadline.after_s(END_WITHIN_S)
            self._stop.set()

    def wait(self, deadline: Deadline) -> bool:
        """Wait until its thread has ended, or time is over; returns whether it has."""
        self._thread.join(deadline.left_s)
        return not self._thread.is_alive()

    def forget(self) -> None:
        """Serve no metrics of it any more."""
        self._metrics.forget()

    def _work(self) -> None:
        structlog.contextvars.bind_contextvars(cluster=self._config.cluster.name)
        while not self._stop.is_set():
            try:
                self._poll()
            except UserError as error:
                self._cannot(str(error))
            except Exception:  # a bug is of this cluster: the others go on
                log.exception("failed")
                self._said = "the collector failed, see its log"
            self._stop.wait(self._again_after_s)

    def _poll(self) -> None:
        poll(
            self._config,
            self.thresholds,
            self._metrics,
            self._stop,
            begun_s_ago=self._begun,
        )

    def _begun(self, known: Config) -> float:
        self._said = ""
        return begun_s_ago(known, time.time())

    def _cannot(self, why: str) -> None:
        """Log each cause once."""
        if why != self._said:
            log.error("cannot be polled", why=why, again_in_s=self._again_after_s)
        self._said = why
        touch_liveness_file(self._config.health.folder, "collector")


def _read_at_start(config: Config) -> tuple[Any, ...]:
    """Settings that take effect when polling of the cluster begins: a change begins it anew."""
    cluster = config.cluster
    return (
        cluster.bootstrap,
        cluster.client,
        cluster.one_replica_topics,
        config.bus,
        config.collector,
        config.proposals,
    )
