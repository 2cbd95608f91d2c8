"""The past of a live exporter: that of the archive, if one is configured."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog

from streaming.runtime.config import Config
from streaming.runtime.errors import UserError
from streaming.runtime.plugins import catalog_of

if TYPE_CHECKING:
    from streaming.history.archive.archive_past import ArchivePast

log = structlog.get_logger("exporter")


class ArchiveMissing(UserError):  # noqa: N818 - said to a person
    """A package that reads the archive is not installed."""


def past_of(config: Config) -> ArchivePast | None:
    """The past that the configured archive keeps; None if no archive is configured.

    Raises:
        ArchiveMissing: an archive is configured, and a package that reads it is not installed.
    """
    if not config.archive.path:
        return None
    try:
        from streaming.history.archive.archive_past import ArchivePast
        from streaming.history.archive.delta import ArchiveTables
    except ModuleNotFoundError as missing:
        raise ArchiveMissing(
            f"archive.path is set, but {missing.name} is not installed: "
            "pip install 'kafka-twin[archive]'"
        ) from None
    tables = ArchiveTables(config.archive.path)
    return ArchivePast(
        tables, catalog_of(config), config.cluster.name, config.collector.interval_ms
    )


@contextmanager
def looking(past: ArchivePast | None) -> Iterator[None]:
    """See again and again what was archived meanwhile, in a thread, while the block runs."""
    if past is None:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_look, args=(past, ended), name="archive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()


def _look(past: ArchivePast, ended: threading.Event) -> None:
    from streaming.history.archive.archive_past import LOOK_EVERY_S

    said = ""
    while not ended.is_set():
        why = ""
        try:
            past.look()
        except UserError as error:
            why = str(error)
        if why and why != said:
            log.warning("unavailable", cluster=past.cluster, what="the archive", why=why)
        said = why
        ended.wait(LOOK_EVERY_S)
