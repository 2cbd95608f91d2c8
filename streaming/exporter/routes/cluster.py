"""The cluster, its brokers and partitions, and the track record of predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.requests import Request

from streaming.bus.view import ClusterView
from streaming.exporter.answers import RefusedError
from streaming.exporter.endpoint import Endpoint, Values
from streaming.exporter.schemas import PROBLEM_LIST, listed, obj, page_of, ref
from streaming.exporter.source import ViewSource
from streaming.exporter.views import api as api_views
from streaming.exporter.views import predictions as prediction_views
from streaming.exporter.views import problems as problem_views
from streaming.exporter.views import segments as segment_views
from streaming.exporter.views.api import ALL_RISKS, PartitionFilter, answering
from streaming.exporter.views.predictions import PredictionFilter
from streaming.exporter.views.runbook import for_cluster, for_partition
from streaming.exporter.views.why import explained
from streaming.questions.parameters import (
    DEFAULT_ROWS,
    InputParameter,
    limit,
    number,
    offset,
    one_of,
    text,
    yes_or_no,
)
from twin.engine.catalog import Catalog
from twin.rules.election.predictions import Cause, Result
from twin.rules.election.redundancy import Spare

_ONE: Final = "/api/v1/partitions/{topic}/{partition:int}"
_ONE_BY: Final = {
    "topic": text("its topic", place="path", required=True),
    "partition": number("its number", place="path", required=True),
}
_NOT_KNOWN: Final = {404: "the twin does not know the partition"}


def endpoints(source: ViewSource) -> list[Endpoint]:
    """The endpoints of this file."""

    def summary(_: Request, __: Values) -> Any:
        return api_views.summary(
            source.catalog, source.cluster, source.view, source.now_ms(), source.own_topics,
            source.not_live, source.span,
        )  # fmt: skip

    def brokers(_: Request, __: Values) -> Any:
        return api_views.brokers(source.view, source.now_ms())

    def problems(_: Request, __: Values) -> Any:
        return problem_views.problems(source.view, source.now_ms())

    def what_to_do(_: Request, __: Values) -> Any:
        view = source.view
        open_risks = api_views.open_cluster_risks(source.catalog, view.cluster)
        return for_cluster(open_risks, answering(view))

    def predictions(_: Request, values: Values) -> Any:
        return prediction_views.predictions(source.view, PredictionFilter(**values))

    return [
        Endpoint(
            path="/api/v1/summary",
            tool="summary",
            summary="the cluster at a glance",
            answer=summary,
            schema=ref("Cluster"),
        ),
        Endpoint(
            path="/api/v1/brokers",
            tool="brokers",
            summary="every broker, and what its loss would do",
            answer=brokers,
            schema=obj({"brokers": listed(ref("Broker"))}),
        ),
        Endpoint(
            path="/api/v1/problems",
            tool="problems",
            summary="what the collector could not find out, and why",
            answer=problems,
            schema=PROBLEM_LIST,
        ),
        Endpoint(
            path="/api/v1/runbook",
            summary="the [runbook's](runbook.md) sections for risks of brokers and the cluster",
            answer=what_to_do,
            schema=ref("ClusterRunbook"),
        ),
        Endpoint(
            path="/api/v1/predictions",
            tool="predictions",
            summary="leader changes, newest first, each with what was predicted",
            answer=predictions,
            schema=page_of("predictions", "Prediction"),
            parameters=PREDICTION_PARAMETERS,
        ),
        *_partitions(source),
    ]


def _partitions(source: ViewSource) -> list[Endpoint]:
    def partitions(_: Request, values: Values) -> Any:
        return api_views.partitions(source.view, partition_filter(values), source.now_ms())

    def partition(view: ClusterView, topic: str, number: int) -> Any:
        selection = PartitionFilter(topic=topic, partition=number, limit=1)
        return next(
            iter(api_views.partitions(view, selection, source.now_ms())["partitions"]), None
        )

    def why(view: ClusterView, topic: str, number: int) -> Any:
        found = partition(view, topic, number)
        meanings = {risk.name: risk.sentence for risk in source.catalog.risks}
        return found and explained(found, meanings, source.catalog.election_rules)

    def what_to_do(view: ClusterView, topic: str, number: int) -> Any:
        found = partition(view, topic, number)
        return found and for_partition(found, answering(view))

    def of_partition(view_of: Callable[[ClusterView, str, int], Any]) -> Callable[..., Any]:
        def answer(_: Request, values: Values) -> Any:
            topic, number = values["topic"], values["partition"]
            content = view_of(source.view, topic, number)
            if content is None:
                raise RefusedError(f"{topic}-{number} is not known", 404)
            return content

        return answer

    def of_one(
        below: str,
        summary: str,
        schema: str,
        view_of: Callable[[ClusterView, str, int], Any],
        **more: Any,
    ) -> Endpoint:
        return Endpoint(
            path=_ONE + below,
            summary=summary,
            answer=of_partition(view_of),
            schema=ref(schema),
            path_parameters=_ONE_BY,
            refusals=_NOT_KNOWN,
            of_topic="topic",
            **more,
        )

    because = "why the partition is as it is, and who leads next and why, in sentences"
    history = "the history of its leader epochs, oldest first"
    remote = "the [remote segments](#segments-and-epochs) of the partition"
    return [
        Endpoint(
            path="/api/v1/partitions",
            tool="partitions",
            summary="partitions, a page at a time",
            answer=partitions,
            schema=page_of("partitions", "Partition"),
            parameters=partition_parameters(source.catalog),
        ),
        of_one("", "one partition", "Partition", partition, tool="partition"),
        of_one("/why", because, "Explained", why, tool="why", text=lambda data: data["sentences"]),
        of_one(
            "/runbook",
            "the [runbook's](runbook.md) sections for its open risks",
            "PartitionRunbook",
            what_to_do,
        ),
        of_one("/segments", remote, "SegmentList", segment_views.segments),
        of_one("/epochs", history, "EpochList", segment_views.epochs),
    ]


# ---------------------------------------------------------------- parameters


def partition_parameters(catalog: Catalog) -> Mapping[str, InputParameter]:
    """The parameters that select partitions."""
    bits = {name: 1 << place for place, name in enumerate(catalog.risk_names)}
    return {
        "topic": text("partitions of this topic"),
        "partition": number("partitions of this number"),
        "search": text(
            "partitions whose topic's name contains this, or whose own name (`orders-1`) does, in "
            "upper or lower case"
        ),
        "broker": number("partitions that have a replica on this broker"),
        "rack": text("partitions that have a replica on a broker of this rack"),
        "at_risk": yes_or_no("partitions that have any risk"),
        "risk": one_of(
            "partitions that have this risk, by its name in the [runbook](runbook.md)", bits
        ),
        "redundancy": one_of(
            "partitions that can do without one replica, or cannot",
            {each.name.lower(): int(each) for each in Spare},
        ),
        "sort": one_of("`worst`: those with the worst risk first", {"worst": "worst"}),
        "limit": limit("partitions", DEFAULT_ROWS),
        "offset": offset("partitions"),
    }


def partition_filter(values: Values) -> PartitionFilter:
    """The filter for those parameters. ``risk`` names one risk, ``at_risk`` means any."""
    fields = dict(values)
    any_risk = ALL_RISKS if fields.pop("at_risk", False) else 0
    return PartitionFilter(risks=fields.pop("risk", any_risk), **fields)


PREDICTION_PARAMETERS: Final[Mapping[str, InputParameter]] = {
    "topic": text("leader changes of this topic"),
    "partition": number("leader changes of partitions of this number"),
    "cause": one_of(
        "leader changes of this [cause](#how-a-prediction-turned-out)",
        {each.name.lower(): int(each) for each in Cause},
    ),
    "result": one_of(
        "leader changes with this [result](#how-a-prediction-turned-out)",
        {each.name.lower(): int(each) for each in Result},
    ),
    "limit": limit("leader changes", DEFAULT_ROWS),
    "offset": offset("leader changes"),
}
