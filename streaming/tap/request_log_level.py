"""Enables the request logs of brokers while they run, and restores their level afterwards.

The level of a logger is set by IncrementalAlterConfigs on the resource BROKER_LOGGER, which has to
be sent to the broker itself. The broker holds it in memory: a restart resets it. A logger with an
appender of its own in the broker's log4j2 configuration (Kafka ships one for this logger) writes
there from the next request on.
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

from streaming.runtime.config import Config
from streaming.runtime.errors import UserError
from streaming.runtime.kafka import clients
from streaming.tap.admin import connect

LOGGER: Final = "kafka.request.logger"
ENABLED: Final = "DEBUG"
DISABLED: Final = "WARN"
"""The level in the log4j2 configuration that Kafka ships."""

CHECK_EVERY_S: Final = 15.0
"""The request log of a restarted broker is enabled again within this time."""

_ENABLED_LEVELS: Final = ("DEBUG", "TRACE")
_REQUEST_TIMEOUT_MS: Final = 5_000

log = structlog.get_logger("tap")


class RequestLogLevelError(UserError):
    """The level of a broker's request logger cannot be read or set."""


@contextlib.contextmanager
def enabled(config: Config, brokers: Iterable[int]) -> Iterator[None]:
    """Enable the request logs of these brokers, and restore their levels at the end.

    In between the levels are checked regularly, since a restarted broker has lost its level.

    Raises:
        RequestLogLevelError: one of them cannot be enabled; those before it are restored.
    """
    prev_levels: dict[int, str] = {}
    try:
        with contextlib.closing(_admin(config)) as admin:
            for broker in brokers:
                _enable(admin, broker, prev_levels)
        stop = threading.Event()
        keeper = threading.Thread(
            target=_keep_enabled, args=(config, prev_levels, stop), name="tap-levels", daemon=True
        )
        keeper.start()
        try:
            yield
        finally:
            stop.set()
            keeper.join()
    finally:
        _restore(config, prev_levels)


def disable(config: Config, brokers: Iterable[int]) -> dict[int, str]:
    """Disable the request logs of these brokers, and return the levels that they had.

    Raises:
        RequestLogLevelError: one of them cannot be disabled.
    """
    prev_levels = {}
    with contextlib.closing(_admin(config)) as admin:
        for broker in brokers:
            prev_levels[broker] = level(admin, broker)
            if prev_levels[broker] in _ENABLED_LEVELS:
                set_level(admin, broker, DISABLED)
    return prev_levels


def level(admin: KafkaAdminClient, broker: int) -> str:
    """The level of the broker's request logger.

    Raises:
        RequestLogLevelError: it cannot be read.
    """
    resource = ConfigResource(ConfigResourceType.BROKER_LOGGER, str(broker), [LOGGER])
    with _errors_of(broker):
        configs: Any = admin.describe_configs([resource], config_filter="all")
        loggers = configs[ConfigResourceType.BROKER_LOGGER.name.lower()][str(broker)]
        return str(loggers[LOGGER]["value"])


def set_level(admin: KafkaAdminClient, broker: int, log_level: str) -> None:
    """Set the level of the broker's request logger.

    Raises:
        RequestLogLevelError: it cannot be set.
    """
    resource = ConfigResource(ConfigResourceType.BROKER_LOGGER, str(broker), {LOGGER: log_level})
    with _errors_of(broker):
        kind = ConfigResourceType.BROKER_LOGGER.name.lower()
        answer = admin.alter_configs([resource], raise_on_unknown=False, incremental=True)
        result = answer[kind][str(broker)]
    if result != "OK":
        raise RequestLogLevelError(f"broker {broker}: {LOGGER} cannot be set: {result}")


def _enable(admin: KafkaAdminClient, broker: int, prev_levels: dict[int, str]) -> None:
    """Enable one request log; its level before the first time goes to ``prev_levels``."""
    current = level(admin, broker)
    if current in _ENABLED_LEVELS:
        if broker not in prev_levels:
            log.info("request log is enabled already", broker=broker, level=current)
        return
    prev_levels.setdefault(broker, current)
    set_level(admin, broker, ENABLED)
    log.info("request log enabled", broker=broker, was=current)


def _keep_enabled(config: Config, prev_levels: dict[int, str], stop: threading.Event) -> None:
    while not stop.wait(CHECK_EVERY_S):
        with contextlib.suppress(RequestLogLevelError), contextlib.closing(_admin(config)) as admin:
            for broker in list(prev_levels):
                with contextlib.suppress(RequestLogLevelError):
                    _enable(admin, broker, prev_levels)


def _restore(config: Config, prev_levels: dict[int, str]) -> None:
    """Restore the levels. A broker that is down has lost its level anyway."""
    if not prev_levels:
        return
    try:
        # A new connection: the addresses that the old one learnt may not be valid any more.
        with contextlib.closing(_admin(config)) as admin:
            for broker, prev_level in prev_levels.items():
                try:
                    set_level(admin, broker, prev_level)
                except RequestLogLevelError as error:
                    log.warning(
                        "request log not restored", broker=broker, to=prev_level, error=str(error)
                    )
                else:
                    log.info("request log restored", broker=broker, to=prev_level)
    except RequestLogLevelError as error:
        log.warning("request logs not restored", brokers=sorted(prev_levels), error=str(error))


@contextlib.contextmanager
def _errors_of(broker: int) -> Iterator[None]:
    try:
        yield
    except (KafkaError, OSError, ValueError, KeyError) as error:
        raise RequestLogLevelError(
            f"broker {broker}: {LOGGER} cannot be read or set: {clients.one_line(error)}"
        ) from None


def _admin(config: Config) -> KafkaAdminClient:
    try:
        return connect(config, request_timeout_ms=_REQUEST_TIMEOUT_MS)
    except (KafkaError, OSError, ValueError) as error:
        more_time = f"cluster.client.{clients.BOOTSTRAP_TIMEOUT}"
        why = clients.one_line(error, more_time, config.cluster.bootstrap)
        raise RequestLogLevelError(f"cluster.bootstrap {config.cluster.bootstrap}: {why}") from None
