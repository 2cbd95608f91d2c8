"""Switching a broker's request log on and off while it runs, and leaving it as it was.

A logger's level is set by IncrementalAlterConfigs on the resource BROKER_LOGGER, sent to that very
broker. It holds in memory only: a restart forgets it. A logger that has an appender of its own in
the broker's log4j2 configuration (Kafka ships one) writes to that from the next request on.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Final

import structlog
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError

from streaming.runtime import clients
from streaming.runtime.config import Config
from streaming.runtime.errors import UserError

LOGGER: Final = "kafka.request.logger"
ON: Final = "DEBUG"
OFF: Final = "WARN"
"""What the log4j2 configuration that Kafka ships says."""

LOOK_EVERY_S: Final = 15.0
"""A restarted broker is switched on again within this time."""

_ON: Final = ("DEBUG", "TRACE")
_BOOTSTRAP_MS: Final = 10_000
_ANSWER_MS: Final = 5_000

log = structlog.get_logger("tap")


class SwitchError(UserError, RuntimeError):
    """A logger could not be read or set: one line with broker and reason."""


@contextlib.contextmanager
def switched_on(config: Config, brokers: Iterable[int]) -> Iterator[None]:
    """The request logs of those brokers are on inside, and afterwards what they were before.

    A broker that was restarted meanwhile has forgotten it, so it is looked after.

    Raises:
        SwitchError: one of them cannot be switched; those before it are restored.
    """
    found: dict[int, str] = {}
    try:
        with contextlib.closing(_admin(config)) as admin:
            for broker in brokers:
                _switch_on(admin, broker, found)
        over = threading.Event()
        keeper = threading.Thread(
            target=_keep_on, args=(config, found, over), name="tap-switch", daemon=True
        )
        keeper.start()
        try:
            yield
        finally:
            over.set()
            keeper.join()
    finally:
        _restore(config, found)


def _switch_on(admin: KafkaAdminClient, broker: int, found: dict[int, str]) -> None:
    """Switch one log on; what it was is noted the first time."""
    was = level(admin, broker)
    if was in _ON:
        if broker not in found:
            log.info("request log is on already", broker=broker, level=was)
        return
    found.setdefault(broker, was)
    set_level(admin, broker, ON)
    log.info("request log switched on", broker=broker, was=was)


def _keep_on(config: Config, found: dict[int, str], over: threading.Event) -> None:
    while not over.wait(LOOK_EVERY_S):
        with contextlib.suppress(SwitchError), contextlib.closing(_admin(config)) as admin:
            for broker in list(found):
                with contextlib.suppress(SwitchError):
                    _switch_on(admin, broker, found)


def _restore(config: Config, found: dict[int, str]) -> None:
    """Set back what was switched on. A broker that is gone has forgotten it by itself."""
    if not found:
        return
    try:
        # Connected anew: an address that was learnt long ago may not hold any more.
        with contextlib.closing(_admin(config)) as admin:
            for broker, was in found.items():
                try:
                    set_level(admin, broker, was)
                except SwitchError as error:
                    log.warning("request log not restored", broker=broker, to=was, why=str(error))
                else:
                    log.info("request log restored", broker=broker, to=was)
    except SwitchError as error:
        log.warning("request logs not restored", brokers=sorted(found), why=str(error))


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
            **{
                "bootstrap_timeout_ms": _BOOTSTRAP_MS,
                "request_timeout_ms": _ANSWER_MS,
                **clients.arguments(config.cluster.bootstrap, config.cluster.client, "cluster"),
            },
        )
    except (KafkaError, OSError, ValueError) as error:
        raise SwitchError(
            f"cluster.bootstrap {config.cluster.bootstrap}: {clients.one_line(error)}"
        ) from None
