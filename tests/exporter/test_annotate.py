"""Annotations: which events, how many, and what becomes of them when Grafana is away."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import msgspec
import pytest

from streaming.bus.view import Event, SnapshotStore
from streaming.exporter.metrics.exposition import Renderer
from streaming.exporter.server import ExporterError, run
from streaming.grafana.annotate import MOST_SINGLE, MOST_TOPICS, TRIES, Annotator
from streaming.grafana.client import GrafanaClient, GrafanaError
from streaming.runtime.config import ExporterConfig, GrafanaConfig
from streaming.runtime.configuration.following import Followed
from tests.grafana.stub import a_grafana
from tests.waiting import until
from twin.builtin import CATALOG

START_MS = 1_000


class Kept:
    """Keeps what is posted; fails as often as it is asked to."""

    def __init__(self, *failures: GrafanaError) -> None:
        self.failures = list(failures)
        self.posted: list[tuple[str, list[str], int]] = []
        self.tried = 0

    def annotate(self, text: str, tags: Sequence[str], at_ms: int) -> None:
        self.tried += 1
        if self.failures:
            raise self.failures.pop(0)
        self.posted.append((text, list(tags), at_ms))


def event(kind: str = "leader_moved", at_ms: int = START_MS, **more) -> Event:
    return Event(
        id="1", kind=kind, cluster="c", at_ms=at_ms, **{"text": f"{kind} text", "topic": "t"} | more
    )


def annotator(grafana: Kept, pauses: list[float] | None = None, **limits: int) -> Annotator:
    def wait(seconds: float) -> bool:
        if pauses is not None:
            pauses.append(seconds)
        return False

    return Annotator("c", grafana, START_MS, wait, **limits)


def test_leader_moves_shrinks_and_risks_are_marked_with_tags_to_choose_by():
    grafana = Kept()
    made = annotator(grafana)
    made.take(event())
    made.take(event("risk_opened", detail="leader_cold"))
    made.post_waiting()
    assert grafana.posted == [
        ("leader_moved text", ["kafka-twin", "cluster:c", "leader_moved", "topic:t"], START_MS),
        ("risk_opened text",
         ["kafka-twin", "cluster:c", "risk_opened", "risk:leader_cold", "topic:t"], START_MS),
    ]  # fmt: skip
    assert made.counts["posted"] == 2


def test_other_events_and_those_of_the_past_are_not():
    grafana = Kept()
    made = annotator(grafana)
    made.take(event("partition_created"))
    made.take(event(at_ms=START_MS - 1))
    made.post_waiting()
    assert grafana.tried == 0


def test_many_of_a_kind_at_once_are_one():
    grafana = Kept()
    made = annotator(grafana)
    for n in range(MOST_SINGLE + 1):
        made.take(event(text=f"p-{n} moved"))
    made.take(event("risk_opened", detail="leader_cold"))
    made.post_waiting()
    texts = [text for text, *_ in grafana.posted]
    assert texts == [
        "6 times leader moved: p-0 moved; p-1 moved; p-2 moved; ...",
        "risk_opened text",
    ]
    assert grafana.posted[0][1] == ["kafka-twin", "cluster:c", "leader_moved", "topic:t"]
    assert made.counts["gathered"] == 6


def test_many_at_once_have_the_tags_of_their_topics_up_to_a_limit():
    grafana = Kept()
    made = annotator(grafana)
    for n in range(MOST_TOPICS + 5):
        made.take(event(topic=f"t{n}"))
    made.post_waiting()
    [(_, tags, _)] = grafana.posted
    assert tags[3:] == [f"topic:t{n}" for n in range(MOST_TOPICS)]


def test_a_grafana_that_is_away_is_tried_again_with_growing_pauses_and_then_given_up():
    pauses: list[float] = []
    away = [GrafanaError("away", again=True)] * TRIES
    grafana = Kept(*away[:2])
    made = annotator(grafana, pauses)
    made.take(event())
    made.post_waiting()
    assert (made.counts["posted"], pauses) == (1, [0.5, 1.0])
    grafana.failures = list(away)
    made.take(event())
    made.post_waiting()
    assert (made.counts["dropped"], grafana.tried) == (1, 3 + TRIES)


def test_a_refusal_is_not_tried_again():
    grafana = Kept(GrafanaError("401"))
    made = annotator(grafana)
    made.take(event())
    made.post_waiting()
    assert (made.counts["refused"], grafana.tried) == (1, 1)


def test_the_queue_has_an_end():
    made = annotator(Kept(), most_waiting=2)
    for _ in range(5):
        made.take(event())
    assert made.counts["dropped"] == 3


def test_nobody_waits_for_a_grafana_that_hangs():
    goes_on = threading.Event()

    class Hangs(Kept):
        def annotate(self, text: str, tags: Sequence[str], at_ms: int) -> None:
            goes_on.wait()

    made = Annotator("c", Hangs(), START_MS, lambda _: False)
    made.start()
    made.take(event())
    for _ in range(1_000):  # would never end if it waited for Grafana
        made.take(event())
    goes_on.set()
    made.stop()


def test_events_of_the_bus_reach_a_grafana_and_are_counted_on_metrics():
    with a_grafana() as stub:
        grafana = GrafanaClient(GrafanaConfig(url=stub.url, token="secret"))
        made = Annotator("c", grafana, START_MS, gather_s=0.01)
        store = SnapshotStore(CATALOG, "c", 1)
        store.annotations = made.counts
        shrank = {"id": "9", "kind": "isr_shrank", "cluster": "c", "at_ms": START_MS,
                  "text": "gone", "topic": "t", "partition": 0, "before": [1],
                  "after": []}  # fmt: skip
        made.start()
        for _ in range(2):  # delivered twice, as an at-least-once topic may
            if (new := store.take_event(msgspec.json.encode(shrank))) is not None:
                made.take(new)
        until(lambda: stub.annotations, 10, "nothing is posted", pause_s=0.02)
        made.stop()
        assert [a["text"] for a in stub.annotations] == ["gone"]
        blocks = Renderer(CATALOG, "c", ExporterConfig()).render(store.publish()).blocks
        assert b'kafka_twin_annotations_total{cluster="c",result="posted"} 1\n' in b"".join(blocks)


def test_a_grafana_without_a_login_is_an_error_before_anything_starts():
    with pytest.raises(ExporterError, match="KAFKA_TWIN_GRAFANA_TOKEN"):
        run(Followed(None, {"KAFKA_TWIN_GRAFANA_URL": "http://127.0.0.1:1"}))
