"""What a script has: the cluster, the exporter, and a way to say something."""

from __future__ import annotations

import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from streaming.lab.local_cluster import NodeStatus
from streaming.runtime.deadline import Deadline
from streaming.runtime.errors import UserError

SOON_S: Final = 60.0


LOOK_S: Final = 5.0
"""Time for users of the console, which refreshes every 3 s."""


class ScriptFailed(UserError, RuntimeError):  # noqa: N818 - said to a person
    """A prediction did not come true, or an alert did not fire or resolve: one line."""


class ScenarioCluster(Protocol):
    """The cluster that a scenario acts on, wherever it runs."""

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers."""

    def status(self) -> list[NodeStatus]:
        """The current state of each node."""

    def kill(self, node: int) -> None:
        """Crash a node."""

    def term(self, node: int) -> None:
        """Shut down a node in good order."""

    def pause(self, node: int) -> None:
        """Freeze a node; its connections stay open."""

    def resume(self, node: int) -> None:
        """Resume a frozen node."""

    def start(self) -> None:
        """Start all nodes that are not running."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The cluster, the twin and the terminal that a scenario works with."""

    cluster: ScenarioCluster
    exporter: str  # URL
    prometheus: str | None  # URL
    say: Callable[[str], None]
    stop: threading.Event
    config: Path | None = None  # of the twin
    metrics_urls: Mapping[int, str] = field(default_factory=dict)  # of the brokers
    to_resolve: dict[str, Deadline] = field(default_factory=dict)  # alerts, and by when

    def api(self, path: str) -> Any:
        """A response of the exporter's API; None if it does not answer."""
        return _get(f"{self.exporter}/api/v1/{path}")

    def partition(self, topic: str, number: int = 0) -> dict[str, Any]:
        """A partition in the exporter's API; empty while the twin does not know it."""
        return self.api(f"partitions/{topic}/{number}") or {}

    def alerts(self) -> dict[str, str]:
        """State of each alert of the twin, by its name: pending or firing."""
        answer = _get(f"{self.prometheus}/api/v1/alerts")
        alerts = answer["data"]["alerts"] if answer else []
        return {a["labels"]["alertname"]: a["state"] for a in alerts}

    def until(self, condition: Callable[[], Any], within_s: float, otherwise: str) -> Any:
        """Wait until a condition is true, and return its value.

        Raises:
            ScriptFailed: it was not true in time, or the demo is being ended.
        """
        deadline = Deadline.after_s(within_s)
        while not (value := condition()):
            if self.stop.wait(0.3):
                raise ScriptFailed("the demo was ended")
            if deadline.is_over:
                raise ScriptFailed(f"{otherwise} after {within_s:.0f} s")
        return value

    def fires(self, alert: str) -> None:
        """Wait until an alert fires, and print that it does."""
        if self.prometheus is None:
            return
        self.until(lambda: self.alerts().get(alert) == "firing", SOON_S, f"{alert} does not fire")
        self.say(f"alert      {alert} fires")

    def resolves(self, alert: str, within_s: float = 2 * SOON_S) -> None:
        """Expect an alert to resolve in time; ``await_alerts_resolved`` waits for it."""
        if self.prometheus is not None:
            self.to_resolve[alert] = Deadline.after_s(within_s)

    def await_alerts_resolved(self) -> None:
        """Wait until every expected alert has resolved, and print each.

        Raises:
            ScriptFailed: an alert still fires at its deadline.
        """
        for alert, deadline in sorted(self.to_resolve.items(), key=lambda item: item[1].at_s):
            self.await_resolved(alert, max(deadline.left_s, SOON_S))
        self.to_resolve.clear()

    def await_resolved(self, alert: str, within_s: float = 2 * SOON_S) -> None:
        """Wait until an alert has resolved, and print that it has.

        Raises:
            ScriptFailed: it still fires.
        """
        if self.prometheus is not None:
            self.until(partial(self._is_quiet, alert), within_s, f"{alert} does not resolve")
            self.say(f"alert      {alert} is resolved")

    def _is_quiet(self, alert: str) -> bool:
        return alert not in self.alerts()

    def leaders(self) -> dict[tuple[str, int], int]:
        """The leader of each partition, from Kafka; empty while Kafka does not answer."""
        return {key: p["leader_id"] for key, p in self._described().items()}

    def is_at_rest(self, partitions: list[dict[str, Any]]) -> bool:
        """All replicas of the partitions are in sync, both in the twin's view and in Kafka's.

        A previous scenario may have removed replicas from an ISR. Until the twin has observed that
        they are back, its prediction is about a state that no longer exists.
        """
        if not all(replica["in_isr"] for p in partitions for replica in p["replicas"]):
            return False
        described = self._described().items()
        whole = {key for key, p in described if set(p["isr_nodes"]) == set(p["replica_nodes"])}
        return whole.issuperset(map(_key, partitions))

    def _described(self) -> dict[tuple[str, int], Any]:
        with suppress(KafkaError), KafkaAdminClient(bootstrap_servers=self.alive()) as admin:
            return {
                (t["name"], p["partition_index"]): p
                for t in admin.describe_topics()
                for p in t["partitions"]
            }
        return {}

    def alive(self) -> list[str]:
        """Addresses of the brokers that run."""
        return [
            f"127.0.0.1:{node.port}" for node in self.cluster.status() if node.state == "running"
        ]


def _get(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return msgspec.json.decode(answer.read())
    except (urllib.error.URLError, OSError, msgspec.DecodeError):
        return None


def _key(partition: dict[str, Any]) -> tuple[str, int]:
    return partition["topic"], partition["partition"]
