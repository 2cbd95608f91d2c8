"""The matrix of topics and brokers, as the console draws it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request

from streaming.exporter.endpoint import Endpoint, Runs, Values
from streaming.exporter.schemas import ref
from streaming.exporter.source import ViewSource
from streaming.exporter.views.matrix import MatrixFilter, matrix
from streaming.questions.parameters import InputParameter, limit, number, offset, text

MAX_LISTED: Final = 1_000
"""Partitions that a topic lists at most."""

PARAMETERS: Final[Mapping[str, InputParameter]] = {
    "topic": text("this topic alone"),
    "search": text("topics whose names contain this, in upper or lower case"),
    "broker": number("a broker to take as lost", repeated=True),
    "rack": text("a rack to take as lost", repeated=True),
    "partitions": number(
        f"topics with at most that many partitions list them, at most {MAX_LISTED}; 0 by default",
        most=MAX_LISTED,
    ),
    "limit": limit("topics", 100),
    "offset": offset("topics"),
}


def endpoints(source: ViewSource) -> list[Endpoint]:
    """The endpoints of this file."""

    def answer(_: Request, values: Values) -> Any:
        return matrix(source.view, MatrixFilter(**values))

    return [
        Endpoint(
            path="/api/v1/matrix",
            summary="topics by brokers: [what each replica is](#the-matrix), counted",
            answer=answer,
            schema=ref("Matrix"),
            parameters=PARAMETERS,
            refusals={404: "there is no such broker or rack"},
            runs=Runs.IN_TURN,
        )
    ]
