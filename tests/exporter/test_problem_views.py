"""Problems of the collector in the API."""

from __future__ import annotations

from tests.builders import NOW_MS, Partition, a_state, problems_frame
from tests.exporter.test_exporter import a_client, a_store
from twin.builtin import CATALOG
from twin.engine.shard_state import ShardState
from twin.step import step

DENIED = ("log dirs", 2, "ClusterAuthorizationFailed", "DESCRIBE on the cluster is missing")
TOPICS = ("topics", -1, "TopicAuthorizationFailed", "secret is hidden")


def with_problems(*problems: tuple[str, int, str, str], **header: bool):
    state, _ = step(a_state(Partition()), [problems_frame(problems, **header)], NOW_MS)
    return a_client(a_store(state))


def test_each_problem_says_where_why_and_since_when():
    client = with_problems(DENIED, TOPICS)
    answer = client.get("/api/v1/problems").json()
    assert answer.pop("age_seconds") >= 0
    assert answer == {
        "problems": [
            {"source": "log dirs", "broker": 2, "error": "ClusterAuthorizationFailed",
             "text": "DESCRIBE on the cluster is missing", "since_ms": NOW_MS},
            {"source": "topics", "broker": -1, "error": "TopicAuthorizationFailed",
             "text": "secret is hidden", "since_ms": NOW_MS},
        ],
        "whole": True,
        "observed_at_ms": NOW_MS,
    }  # fmt: skip
    assert client.get("/api/v1/summary").json()["problems"] == 2


def test_none_is_not_the_same_as_not_known():
    client = with_problems()
    assert client.get("/api/v1/problems").json()["problems"] == []
    assert client.get("/api/v1/summary").json()["problems"] == 0
    client = a_client(a_store(a_state(Partition())))
    assert client.get("/api/v1/problems").json() == {
        "problems": None, "whole": None, "observed_at_ms": None, "age_seconds": None
    }  # fmt: skip
    assert client.get("/api/v1/summary").json()["problems"] is None


def test_a_list_that_was_cut_off_says_so():
    assert with_problems(DENIED, complete=False).get("/api/v1/problems").json()["whole"] is False


def test_of_several_shards_the_newest_list_counts():
    """Collectors of two versions may write it to different shards."""
    old, new = (ShardState.empty(CATALOG, "c", n, 2) for n in (0, 1))
    old, _ = step(old, [problems_frame([TOPICS], NOW_MS, shard=0, shards=2)], NOW_MS)
    later_ms = NOW_MS + 5_000
    new, _ = step(new, [problems_frame([DENIED], later_ms, shard=1, shards=2)], later_ms)
    answer = a_client(a_store(old, new)).get("/api/v1/problems").json()
    assert [each["source"] for each in answer["problems"]] == ["log dirs"]
