"""The matrix of topics and brokers, as the console draws it."""

from __future__ import annotations

from streaming.exporter.endpoint import Runs, endpoint
from streaming.exporter.view_source import ViewSource
from streaming.exporter.views import matrix as matrix_views


@endpoint(
    "/api/v1/matrix",
    "topics by brokers: [what each replica is](#the-matrix), counted",
    refusals={404: "there is no such broker or rack"},
    runs=Runs.IN_TURN,
)
def matrix(source: ViewSource, *, which: matrix_views.MatrixFilter) -> matrix_views.Matrix:
    """A page of topics."""
    return matrix_views.matrix(source.view, which)
