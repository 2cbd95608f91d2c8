"""The log directories of brokers."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from streaming.exporter.endpoint import Endpoint, Values
from streaming.exporter.schemas import LOG_DIR_LIST
from streaming.exporter.source import ViewSource
from streaming.exporter.views.log_dirs import LogDirFilter, log_dirs
from streaming.questions.parameters import DEFAULT_ROWS, limit, number, yes_or_no


def endpoints(source: ViewSource) -> list[Endpoint]:
    """The endpoint of this file."""

    def answer(_: Request, values: Values) -> Any:
        return log_dirs(source.view, LogDirFilter(**values), source.now_ms())

    return [
        Endpoint(
            path="/api/v1/brokers/log-dirs",
            tool="log_dirs",
            summary="every [log directory](#a-log-directory), and what is in it",
            answer=answer,
            schema=LOG_DIR_LIST,
            parameters={
                "broker": number("directories of this broker"),
                "failed": yes_or_no("directories that have failed"),
                "limit": limit("offline partitions of each", DEFAULT_ROWS),
            },
        )
    ]
