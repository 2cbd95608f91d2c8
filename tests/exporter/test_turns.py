"""Questions wait for each other; nothing else waits for them."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request

from streaming.exporter.endpoint import Endpoint, Runs, Values
from streaming.exporter.metrics.exposition import Exposition
from streaming.exporter.moments import Moments
from streaming.exporter.routing import routes
from streaming.exporter.turns import QUESTIONS_AT_ONCE, Limit, Turns
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


@given(
    asked=st.lists(st.sampled_from("abc"), min_size=1, max_size=30),
    at_once=st.integers(1, 3),
    given_up=st.sets(st.integers(0, 29)),
)
def test_each_cluster_comes_in_its_turn_within_the_limits(asked, at_once, given_up):
    """Those who give up while they wait take nothing with them."""
    begun: list[int] = []

    async def ask() -> None:
        limit, running = Limit(at_once), Counter[str]()
        may_end = asyncio.Semaphore(0)

        async def question(number: int, cluster: str) -> None:
            async with limit.turn(cluster):
                running[cluster] += 1
                assert running[cluster] <= at_once
                assert running.total() <= 2 * at_once
                begun.append(number)
                await may_end.acquire()
                running[cluster] -= 1

        questions = [asyncio.create_task(question(n, each)) for n, each in enumerate(asked)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for number in given_up & {*range(len(asked))} - {*begun}:
            questions[number].cancel()
        for _ in questions:
            may_end.release()
        await asyncio.gather(*questions, return_exceptions=True)
        async with asyncio.timeout(10), limit.turn("d"):
            pass

    asyncio.run(ask())
    assert len(begun) == len({*begun})
    assert {*range(len(asked))} - {*begun} <= given_up
    # Of one cluster in order, and of several in turn: who waits is passed by each other but once.
    for cluster in {*asked}:
        mine = [number for number in begun if asked[number] == cluster]
        assert mine == sorted(mine)


def test_of_a_cluster_of_which_many_wait_another_waits_for_one_question_at_most():
    begun: list[str] = []

    async def ask() -> None:
        limit, may_end = Limit(1), asyncio.Semaphore(0)

        async def question(cluster: str) -> None:
            async with limit.turn(cluster):
                begun.append(cluster)
                await may_end.acquire()

        many = [asyncio.create_task(question("many")) for _ in range(10)]
        await asyncio.sleep(0)
        few = [asyncio.create_task(question("few")) for _ in range(2)]
        for _ in (*many, *few):
            may_end.release()
        await asyncio.gather(*many, *few)

    asyncio.run(ask())
    assert begun[:4].count("few") == 2
