"""Questions wait for each other; nothing else waits for them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from starlette.applications import Starlette
from starlette.requests import Request

from streaming.exporter.endpoint import Endpoint, Runs, Values
from streaming.exporter.metrics.exposition import Exposition
from streaming.exporter.moments import Moments
from streaming.exporter.routing import routes
from streaming.exporter.turns import QUESTIONS_AT_ONCE, Turns
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import endpoints
from streaming.questions import QUESTIONS
from tests.builders import NOW_MS
from tests.exporter.serving import served
from tests.waiting import until
from tests.web import get
from twin.builtin import CATALOG

MANY = 60
"""More than Starlette has threads for all requests."""

SOURCE = ViewSource(CATALOG, "c", Exposition, lambda: NOW_MS)


def test_what_takes_the_processor_is_answered_in_turn_and_nothing_else():
    in_turn = {each.path for each in endpoints(CATALOG) if each.runs is Runs.IN_TURN}
    assert in_turn == {
        *(f"/api/v1/whatif/{name}" for name in QUESTIONS),
        "/api/v1/brokers/{broker:int}/restart",
        "/api/v1/brokers/in-sync",
        "/api/v1/matrix",
        *(f"/api/v1/plans/{name}" for name in ("order", "demote", "place", "roll")),
    }


def test_a_scrape_waits_for_no_question_however_many_are_asked():
    """Questions that do not end until the test lets them."""
    may_end, running, most, asked = threading.Event(), set[int](), [0], count()

    def answer(_: ViewSource, __: Request, ___: Values) -> list[int]:
        number = next(asked)
        running.add(number)
        most[0] = max(most[0], len(running))
        may_end.wait(60)
        running.discard(number)
        return []

    question = Endpoint(path="/question", summary="", answer=answer, schema={}, runs=Runs.IN_TURN)
    asked_about = [question, *endpoints(CATALOG)]
    app = Starlette(routes=routes(asked_about, Moments(SOURCE).ask, Turns(), "c"))
    with served(app) as url, ThreadPoolExecutor(MANY) as people:
        answers = [people.submit(get, f"{url}/question", timeout_s=60) for _ in range(MANY)]
        try:
            until(lambda: len(running) == QUESTIONS_AT_ONCE, pause_s=0.01)
            for path in ("/metrics", "/api/v1/summary", "/api/v1/partitions"):
                assert get(url + path)[0] == 200
            assert not any(each.done() for each in answers)
        finally:
            may_end.set()
        assert [each.result() for each in answers] == [(200, "[]")] * MANY
    assert most[0] == QUESTIONS_AT_ONCE
