"""Clusters with equal names of topics, ids of brokers and even of clusters are not mixed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from streaming.exporter.web_application import application
from tests.bench.answers import questions
from tests.examples import ARE_FEW
from tests.exporter.fleet.views import a_fleet, a_source
from tests.simulator.shard import Shape

SHAPES = (
    Shape(topics=2, partitions=3, brokers=3, replication=3, groups=2),
    Shape(topics=2, partitions=3, brokers=4, replication=2, groups=1, fetches=True),
)
"""Of the same names: the first topics and brokers of one are those of the other."""


@pytest.mark.parametrize("seed", range(1 if ARE_FEW else 5))
def test_every_path_answers_about_one_cluster_as_an_exporter_of_it_alone(seed: int):
    sources = [
        a_source(name, seed + n, shape=SHAPES[(seed + n) % len(SHAPES)], cycles=4)
        for n, name in enumerate(("orders", "payments"))
    ]
    fleet = a_fleet(*sources)
    told = []
    for source in sources:
        alone, answers = TestClient(application(source)), []
        for path, query in asked(alone):
            expected = alone.get(path, params=query)
            answer = fleet.get(f"/clusters/{source.cluster}{path}", params=query)
            assert (answer.status_code, without_place(answer, source.cluster)) == (
                expected.status_code, without_place(expected, source.cluster),
            ), path  # fmt: skip
            answers.append(expected.content)
        told.append(answers)
    differing = sum(one != other for one, other in zip(*told, strict=True))
    assert differing > len(told[0]) / 4, "what is not of one cluster would be seen"


def asked(client: TestClient) -> Iterator[tuple[str, dict[str, str]]]:
    """Every path with each of its parameters in turn."""
    yield from questions(client.get("/api/v1/openapi.json").json())


def without_place(answer: Any, cluster: str) -> bytes:
    """The answer, wherever what it is about is served."""
    content: bytes = answer.content
    for place in (f"/clusters/{cluster}", f" --cluster {cluster}"):
        content = content.replace(place.encode(), b"")
    return content
