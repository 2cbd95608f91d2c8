"""Metrics of several clusters are those of each alone, and within the caps of all together."""

from __future__ import annotations

import gzip
from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain
from starlette.testclient import TestClient

from streaming.exporter.metrics.exposition import Renderer, budget_of
from streaming.exporter.metrics.series_budget import SeriesBudget
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import application
from streaming.runtime.config import ExporterConfig
from tests.exporter.fleet.views import a_fleet, a_source, a_view
from tests.simulator.shard import Shape
from twin.builtin import CATALOG

ORDERS, PAYMENTS = a_source("orders"), a_source("payments", seed=2)
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
LARGE = Shape(topics=4, partitions=40, brokers=3, replication=3)
OF_PARTS = ("kafka_twin_partition_", "kafka_twin_replica_")


def samples(text: str, parser=plain) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The samples; each may be there once, and each metric in one place."""
    families = list(parser(text))
    names = [family.name for family in families]
    assert len(names) == len({*names})
    found = [
        ((s.name, tuple(sorted(s.labels.items()))), s.value) for f in families for s in f.samples
    ]
    assert len(found) == len({key for key, _ in found})
    return {key: value for key, value in found if "render_seconds" not in key[0]}


@pytest.mark.parametrize(("accept", "parser"), [("*/*", plain), (OPEN_METRICS, open_metrics)])
def test_all_have_the_samples_of_each(accept, parser):
    fleet, headers = a_fleet(ORDERS, PAYMENTS), {"Accept": accept}
    together = samples(fleet.get("/metrics", headers=headers).text, parser)
    each = [
        samples(TestClient(application(source)).get("/metrics", headers=headers).text, parser)
        for source in (ORDERS, PAYMENTS)
    ]
    assert together == each[0] | each[1]
    assert len(together) == len(each[0]) + len(each[1])


def test_one_cluster_may_be_asked_for_and_an_unknown_one_is_one_line():
    fleet = a_fleet(ORDERS, PAYMENTS)
    alone = TestClient(application(ORDERS)).get("/metrics").text
    for path in ("/metrics?cluster=orders", "/clusters/orders/metrics"):
        assert samples(fleet.get(path).text) == samples(alone)
    for client, there in (
        (fleet, "orders, payments"),
        (TestClient(application(ORDERS)), "orders"),
    ):
        answer = client.get("/metrics?cluster=none")
        assert answer.status_code == 404
        assert answer.text == f"there is no cluster none; there is {there}\n"


def test_they_are_compressed_for_whoever_takes_it_so():
    fleet = a_fleet(ORDERS, PAYMENTS)
    with fleet.stream("GET", "/metrics", headers={"Accept-Encoding": "gzip"}) as answer:
        sent = b"".join(answer.iter_raw())
    assert samples(gzip.decompress(sent).decode()) == samples(fleet.get("/metrics").text)


def test_a_cluster_whose_metrics_cannot_be_made_is_not_up_and_the_others_are():
    def broken():
        raise ValueError("a bug")

    view = PAYMENTS.view
    fleet = a_fleet(ORDERS, replace(PAYMENTS, current=broken, newest=lambda: view))
    found = samples(fleet.get("/metrics").text)
    up = {labels: value for (name, labels), value in found.items() if name == "kafka_twin_up"}
    assert up == {(("cluster", "orders"),): 1, (("cluster", "payments"),): 0}


def sharing(cap: int, **shapes: Shape) -> list[ViewSource]:
    """Sources of clusters that share a cap of series."""
    config = ExporterConfig(max_series=cap)
    budget = budget_of(config)

    def source(name: str, shape: Shape) -> ViewSource:
        view = a_view(name, shape=shape)
        renderer = Renderer(CATALOG, name, config, budget=budget)
        return ViewSource(
            CATALOG, name, lambda: renderer.render(view), lambda: view.observed_at_ms + 1_000
        )

    return [source(name, shape) for name, shape in shapes.items()]


def test_within_the_cap_a_small_cluster_is_there_as_a_whole_and_what_was_cut_is_said():
    small = Shape(topics=1, partitions=3, brokers=3, replication=3)
    all_series = counted(a_fleet(*sharing(10**6, big=LARGE, small=small)))
    cap = all_series["small"] + 500
    found = samples((fleet := a_fleet(*sharing(cap, big=LARGE, small=small))).get("/metrics").text)
    served = counted(fleet)
    assert served["small"] == all_series["small"]
    assert sum(served.values()) <= cap
    cut = {
        dict(labels)["cluster"]: value
        for (name, labels), value in found.items()
        if name == "kafka_twin_series_cut" and dict(labels)["level"] == "healthy"
    }
    assert cut["small"] == 0
    assert cut["big"] > 0


def counted(fleet: TestClient) -> dict[str, int]:
    """Series of partitions and replicas by cluster."""
    counts: defaultdict[str, int] = defaultdict(int)
    for name, labels in samples(fleet.get("/metrics").text):
        if name.startswith(OF_PARTS):
            counts[dict(labels)["cluster"]] += 1
    return counts


WISHES = st.dictionaries(
    st.sampled_from("abcde"), st.lists(st.integers(0, 50), min_size=4, max_size=4), min_size=1
)


@given(wishes=WISHES, caps=st.lists(st.integers(0, 100), min_size=4, max_size=4).map(sorted))
def test_all_together_have_what_fits_and_nobody_has_less_than_who_wants_more(wishes, caps):
    budget = SeriesBudget(caps)
    for name, wanted in wishes.items():
        budget.allowed(name, wanted)
    given = {name: budget.allowed(name, wanted) for name, wanted in wishes.items()}
    for number, cap in enumerate(caps):
        served = sum(sum(each[: number + 1]) for each in given.values())
        assert served <= cap or not any(each[number] for each in given.values())
        wanted = sum(each[number] for each in wishes.values())
        before = sum(sum(each[:number]) for each in given.values())
        assert sum(each[number] for each in given.values()) == min(wanted, max(cap - before, 0))
    for name, mine in given.items():
        for number, share in enumerate(mine):
            if share < wishes[name][number]:
                assert all(share + 1 >= each[number] for each in given.values())
    for name in [*wishes][1:]:
        budget.forget(name)
    first, wanted = next(iter(wishes.items()))
    assert budget.allowed(first, wanted) == SeriesBudget(caps).allowed(first, wanted)
