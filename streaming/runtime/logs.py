"""Logging of all programs: one line per event, in one format for our code and for libraries.

Times are UTC. Secrets never reach a log: configurations are logged through ``Config.shown`` only,
and what stands before the host of a URL is masked.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import structlog

from streaming.runtime.config import DEFAULTS, given_by
from streaming.runtime.errors import without_secrets

_QUIET = ("kafka", "py4j", "uvicorn", "asyncio", "httpx2", "mcp")


def _masked(_: object, __: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """An event whose texts have no password of a URL."""
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = without_secrets(value)
    return event


def configure(verbose: bool = False) -> None:
    """Log to standard error; libraries that log much log errors only, unless ``verbose``."""
    level = logging.DEBUG if verbose else logging.INFO
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="%Y-%m-%dT%H:%M:%SZ", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        # A cached logger ignores later configurations, and programs log too little to gain speed.
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _masked,
                structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.INFO if verbose else logging.ERROR)


def say_what_wins(path: Path | None, environment: Mapping[str, str] = os.environ) -> None:
    """One line that names the variables of the environment that win over the file, if any.

    Their values are not shown, and may be secret.
    """
    if names := given_by(environment):
        structlog.get_logger("config").info(
            "the environment wins over the file", settings=", ".join(names),
            file="none" if path is None else str(path),
            defaults=environment.get(DEFAULTS, "none"),
        )  # fmt: skip
