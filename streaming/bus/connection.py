"""How clients of the bus connect, and how their errors are worded."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec
from kafka.errors import (
    KafkaConnectionError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
    StaleMetadata,
)

from streaming.runtime.config import Config
from streaming.runtime.configuration.secret_keys import masked
from streaming.runtime.errors import UserError
from streaming.runtime.kafka import clients

BOOTSTRAP_MS: Final = 10_000
"""How long the first connection may take before it fails with an error."""

UNREACHABLE: Final = (
    KafkaConnectionError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
    StaleMetadata,
    OSError,
)
"""Errors of kafka-python when no broker answers: which one depends on what it waits for."""


class BusError(UserError, RuntimeError):
    """The bus cannot be used: one line that says which address or topic, and why."""

    def __init__(
        self,
        message: str,
        *,
        topic_missing: bool = False,
        may_not_create: bool = False,
        unreachable: bool = False,
    ) -> None:
        super().__init__(message)
        self.unreachable = unreachable  # nobody answers
        self.topic_missing = topic_missing
        self.may_not_create = may_not_create


class Bus(NamedTuple):
    """The bus of a cluster. Clusters with equal ones can share a connection, or a query."""

    bootstrap: str
    client: str  # as JSON

    @classmethod
    def of(cls, config: Config) -> Bus:
        """The bus of a cluster."""
        client = msgspec.json.encode(config.bus_client, order="sorted").decode()
        return cls(config.bus_bootstrap, client)

    @property
    def folder(self) -> str:
        """The name of its folder, which stays when a secret changes."""
        client = msgspec.json.encode(masked(msgspec.json.decode(self.client)))
        digest = blake2b(f"{self.bootstrap} ".encode() + client, digest_size=6).hexdigest()
        # Spark's command for other state partitions does not find a folder with a sign of URLs.
        return f"{re.sub('[^a-zA-Z0-9.-]', '_', self.bootstrap.partition(',')[0])}-{digest}"


def settings(config: Config) -> dict[str, Any]:
    """Arguments of any kafka-python client of the bus."""
    section = "bus" if config.bus.bootstrap else "cluster"
    return {
        clients.BOOTSTRAP_TIMEOUT: BOOTSTRAP_MS,
        **clients.arguments(config.bus_bootstrap, config.bus_client, section),
    }


def failed(config: Config, error: BaseException) -> BusError:
    """A ``BusError`` from an error of kafka-python, with the address of the bus."""
    section = "bus" if config.bus.bootstrap else "cluster"
    more_time = f"{section}.client.{clients.BOOTSTRAP_TIMEOUT}"
    why = clients.one_line(error, more_time, config.bus_bootstrap)
    text = f"bus {config.bus_bootstrap}: {why}"
    return BusError(text, unreachable=isinstance(error, UNREACHABLE))
