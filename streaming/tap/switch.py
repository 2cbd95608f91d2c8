"""Switching a broker's request log on and off while it runs, and leaving it as it was.

A logger's level is set by IncrementalAlterConfigs on the resource BROKER_LOGGER, sent to that very
broker. It holds in memory only: a restart forgets it. A logger that has an appender of its own in
the broker's log4j2 configuration (Kafka ships one) writes to that from the next request on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

import structlog
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError

from streaming import clients
from streaming.config import Config

LOGGER: Final = "kafka.request.logger"
ON: Final = "DEBUG"
OFF: Final = "WARN"
"""What the log4j2 configuration that Kafka ships says."""

_ON: Final = ("DEBUG", "TRACE")
_BOOTSTRAP_MS: Final = 10_000

log = structlog.get_logger("tap")


class SwitchError(RuntimeError):
    """A logger could not be read or set: one line with broker and reason."""


@contextlib.contextmanager
def switched_on(config: Config, brokers: Iterable[int]) -> Iterator[None]:
    """The request logs of those brokers are on inside, and afterwards what they were before.

    Raises:
        SwitchError: one of them cannot be switched; those before it are restored.
    """
    with contextlib.ExitStack() as stack:
        admin = _admin(config)
        stack.callback(admin.close)
        for broker in brokers:
            found = level(admin, broker)
            if found in _ON:
                log.info("request log is on already", broker=broker, level=found)
                continue
            stack.callback(_restore, admin, broker, found)
            set_level(admin, broker, ON)
            log.info("request log switched on", broker=broker, was=found)
        yield


def disable(config: Config, brokers: Iterable[int]) -> dict[int, str]:
    """Switch the request logs of those brokers off, whoever left them on; returns what they were.

    Raises:
        SwitchError: one of them cannot be switched.
    """
    admin = _admin(config)
    with contextlib.closing(admin):
        found = {}
        for broker in brokers:
            found[broker] = level(admin, broker)
            if found[broker] in _ON:
                set_level(admin, broker, OFF)
        return found


def level(admin: KafkaAdminClient, broker: int) -> str:
    """The level of the broker's request logger.

    Raises:
        SwitchError: it cannot be read.
    """
    resource = ConfigResource(ConfigResourceType.BROKER_LOGGER, str(broker), [LOGGER])
    with _explained(broker):
        told: Any = admin.describe_configs([resource], config_filter="all")
        of_broker = told[ConfigResourceType.BROKER_LOGGER.name.lower()][str(broker)]
        return str(of_broker[LOGGER]["value"])


def set_level(admin: KafkaAdminClient, broker: int, wanted: str) -> None:
    """Set the level of the broker's request logger.

    Raises:
        SwitchError: it cannot be set.
    """
    resource = ConfigResource(ConfigResourceType.BROKER_LOGGER, str(broker), {LOGGER: wanted})
    with _explained(broker):
        kind = ConfigResourceType.BROKER_LOGGER.name.lower()
        answer = admin.alter_configs([resource], raise_on_unknown=False, incremental=True)
    if answer[kind][str(broker)] != "OK":
        raise SwitchError(f"broker {broker}: {LOGGER} cannot be set: {answer[kind][str(broker)]}")


def _restore(admin: KafkaAdminClient, broker: int, found: str) -> None:
    try:
        set_level(admin, broker, found)
    except SwitchError as error:
        # A broker that is gone has forgotten it.
        log.warning("request log not restored", broker=broker, to=found, why=str(error))
    else:
        log.info("request log restored", broker=broker, to=found)


@contextlib.contextmanager
def _explained(broker: int) -> Iterator[None]:
    try:
        yield
    except (KafkaError, OSError, ValueError, KeyError) as error:
        raise SwitchError(
            f"broker {broker}: {LOGGER} cannot be read or set: {clients.one_line(error)}"
        ) from None


def _admin(config: Config) -> KafkaAdminClient:
    try:
        return KafkaAdminClient(
            bootstrap_servers=config.cluster.bootstrap.split(","),
            bootstrap_timeout_ms=_BOOTSTRAP_MS,
            **clients.settings(config.cluster.client, "cluster"),
        )
    except (KafkaError, OSError, ValueError) as error:
        raise SwitchError(
            f"cluster.bootstrap {config.cluster.bootstrap}: {clients.one_line(error)}"
        ) from None
