"""The log directories of brokers."""

from __future__ import annotations

from typing import Any

from streaming.exporter.endpoint import endpoint
from streaming.exporter.schemas import LOG_DIR_LIST
from streaming.exporter.view_source import ViewSource
from streaming.exporter.views import log_dirs as log_dir_views


@endpoint(
    "/api/v1/brokers/log-dirs",
    "every [log directory](#a-log-directory), and what is in it",
    schema=LOG_DIR_LIST,
    tool="log_dirs",
)
def log_dirs(source: ViewSource, *, which: log_dir_views.LogDirFilter) -> Any:
    """The log directories that match."""
    return log_dir_views.log_dirs(source.view, which, source.now_ms())
