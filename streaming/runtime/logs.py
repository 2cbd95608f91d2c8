"""Logging of all programs: one line per event, in one format for our code and for libraries.

Times are UTC. No secret of the configuration reaches a log or a traceback, whoever writes it:
each line is masked as a whole.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import structlog

from streaming.runtime.configuration.variables import DEFAULTS, given_by
from streaming.runtime.errors import without_secrets

_QUIET = ("kafka", "py4j", "uvicorn", "asyncio", "httpx2", "mcp")


class _Masking(structlog.stdlib.ProcessorFormatter):
    """Masks the whole line, with its traceback if it has one."""

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


def _show_error(
    kind: type[BaseException], error: BaseException | None, where: TracebackType | None
) -> None:
    """Print a traceback as Python does, but for its secrets."""
    text = "".join(traceback.format_exception(kind, error, where))
    sys.stderr.write(without_secrets(text))


def _show_error_of_thread(hook: threading.ExceptHookArgs) -> None:
    if hook.exc_type is not SystemExit:
        _show_error(hook.exc_type, hook.exc_value, hook.exc_traceback)


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
        _Masking(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.dev.ConsoleRenderer(
                    colors=sys.stderr.isatty(),
                    pad_event_to=0,
                    # Others break lines, inside a secret as well, and show local variables.
                    exception_formatter=structlog.dev.plain_traceback,
                ),
            ],
        )
    )
    sys.excepthook = _show_error
    threading.excepthook = _show_error_of_thread
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.INFO if verbose else logging.ERROR)


def say_what_wins(path: Path | None, environment: Mapping[str, str] = os.environ) -> None:
    """One line that names the variables of the environment that win over a file, if any.

    Their values are not shown, and may be secret. Without a file nothing is overridden.
    """
    if path is None and DEFAULTS not in environment:
        return
    if names := given_by(environment):
        structlog.get_logger("config").info(
            "the environment wins over the file",
            settings=", ".join(names),
            file="none" if path is None else str(path),
            defaults=environment.get(DEFAULTS, "none"),
        )
