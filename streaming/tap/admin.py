"""The tap's connection to the watched cluster."""

from __future__ import annotations

from typing import Any, Final

from kafka import KafkaAdminClient

from streaming.runtime.config import Config
from streaming.runtime.kafka import clients

_BOOTSTRAP_TIMEOUT_MS: Final = 10_000


def connect(config: Config, **settings: Any) -> KafkaAdminClient:
    """A client of the cluster in the configuration; ``[cluster.client]`` overrides ``settings``.

    Raises:
        KafkaError, OSError, ValueError: no broker can be reached.
        ConfigError: the configuration has a setting that no client knows.
    """
    cluster = config.cluster
    defaults = {"bootstrap_timeout_ms": _BOOTSTRAP_TIMEOUT_MS, **settings}
    return KafkaAdminClient(
        **defaults | clients.arguments(cluster.bootstrap, cluster.client, "cluster")
    )
