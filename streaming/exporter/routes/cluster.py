"""The cluster, its brokers and partitions, and the track record of predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from streaming.exporter.answers import RefusedError
from streaming.exporter.endpoint import Endpoint, endpoint
from streaming.exporter.schemas import PROBLEM_LIST, listed, obj, page_of, ref
from streaming.exporter.view_source import ViewSource
from streaming.exporter.views import cluster as cluster_views
from streaming.exporter.views import partitions as partition_views
from streaming.exporter.views import predictions as prediction_views
from streaming.exporter.views import problems as problem_views
from streaming.exporter.views import segments as segment_views
from streaming.exporter.views.cluster import answering
from streaming.exporter.views.partitions import PartitionFilter
from streaming.exporter.views.predictions import PredictionFilter
from streaming.exporter.views.runbook import (
    ClusterRunbook,
    PartitionRunbook,
    for_cluster,
    for_partition,
)
from streaming.exporter.views.segments import EpochList, SegmentList
from streaming.exporter.views.why import Explained, explained
from streaming.questions.parameters import number, text

T = TypeVar("T")

_Topic = Annotated[str, text("its topic", place="path")]
_Number = Annotated[int, number("its number", place="path")]


@endpoint("/api/v1/summary", "the cluster at a glance", schema=ref("Cluster"), tool="summary")
def summary(source: ViewSource) -> dict[str, Any]:
    """The counts and facts of the cluster."""
    return cluster_views.summary(
        source.catalog, source.cluster, source.view, source.now_ms(), source.own_topics,
        source.not_live, source.span,
    )  # fmt: skip


@endpoint(
    "/api/v1/brokers",
    "every broker, and what its loss would do",
    schema=obj({"brokers": listed(ref("Broker"))}),
    tool="brokers",
)
def brokers(source: ViewSource) -> dict[str, Any]:
    """Every broker."""
    return cluster_views.brokers(source.view, source.now_ms())


@endpoint(
    "/api/v1/problems",
    "what the collector could not find out, and why",
    schema=PROBLEM_LIST,
    tool="problems",
)
def problems(source: ViewSource) -> Any:
    """The newest list of problems."""
    return problem_views.problems(source.view, source.now_ms())


@endpoint(
    "/api/v1/runbook",
    "the [runbook's](runbook.md) sections for risks of brokers and the cluster",
)
def what_to_do(source: ViewSource) -> ClusterRunbook:
    """The sections for open risks."""
    view = source.view
    return for_cluster(
        cluster_views.open_cluster_risks(source.catalog, view.cluster), answering(view)
    )


@endpoint(
    "/api/v1/predictions",
    "leader changes, newest first, each with what was predicted",
    schema=page_of("predictions", "Prediction"),
    tool="predictions",
)
def predictions(source: ViewSource, *, which: PredictionFilter) -> dict[str, Any]:
    """A page of leader changes."""
    return prediction_views.predictions(source.view, which)


@endpoint(
    "/api/v1/partitions",
    "partitions, a page at a time",
    schema=page_of("partitions", "Partition"),
    tool="partitions",
)
def partitions(source: ViewSource, *, which: PartitionFilter) -> dict[str, Any]:
    """A page of partitions."""
    return partition_views.partitions(source.view, which, source.now_ms())


# ---------------------------------------------------------------- one partition


def _of_one(below: str, summary: str, **more: Any) -> Callable[[Callable[..., Any]], Endpoint]:
    """Declare an endpoint of one partition."""
    return endpoint(
        "/api/v1/partitions/{topic}/{partition:int}" + below,
        summary,
        refusals={404: "the twin does not know the partition"},
        of_topic="topic",
        **more,
    )


def _known(content: T | None, topic: str, number: int) -> T:
    if content is None:
        raise RefusedError(f"{topic}-{number} is not known", 404)
    return content


def _found(source: ViewSource, topic: str, number: int) -> dict[str, Any]:
    selection = PartitionFilter(topic=topic, partition=number, limit=1)
    page = partition_views.partitions(source.view, selection, source.now_ms())["partitions"]
    return _known(next(iter(page), None), topic, number)


@_of_one("", "one partition", schema=ref("Partition"), tool="partition")
def partition(source: ViewSource, *, topic: _Topic, partition: _Number) -> dict[str, Any]:
    """One partition."""
    return _found(source, topic, partition)


@_of_one(
    "/why",
    "why the partition is as it is, and who leads next and why, in sentences",
    tool="why",
    text=lambda data: data["sentences"],
)
def why(source: ViewSource, *, topic: _Topic, partition: _Number) -> Explained:
    """Sentences on one partition."""
    meanings = {risk.name: risk.sentence for risk in source.catalog.risks}
    found = _found(source, topic, partition)
    return explained(found, meanings, source.catalog.election_rules)


@_of_one("/runbook", "the [runbook's](runbook.md) sections for its open risks")
def what_to_do_there(source: ViewSource, *, topic: _Topic, partition: _Number) -> PartitionRunbook:
    """The sections for a partition's open risks."""
    return for_partition(_found(source, topic, partition), answering(source.view))


@_of_one("/segments", "the [remote segments](#segments-and-epochs) of the partition")
def segments(source: ViewSource, *, topic: _Topic, partition: _Number) -> SegmentList:
    """The remote segments of one partition."""
    return _known(segment_views.segments(source.view, topic, partition), topic, partition)


@_of_one("/epochs", "the history of its leader epochs, oldest first")
def epochs(source: ViewSource, *, topic: _Topic, partition: _Number) -> EpochList:
    """The leader epochs of one partition."""
    return _known(segment_views.epochs(source.view, topic, partition), topic, partition)
