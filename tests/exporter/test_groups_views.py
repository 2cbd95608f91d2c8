"""Groups of consumers, as the API and the exposition have them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streaming.questions.parameters import MAX_ROWS
from tests.builders import (
    NOW_MS,
    Group,
    Log,
    Partition,
    a_state,
    group_offsets_frame,
    groups_frame,
)
from tests.exporter.test_exporter import a_client, a_store, exposition, samples
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.step import step
from twin.tables.enums import GroupState

COLD = Partition("cold", logs={2: Log(local_start=90)}, log=Log(local_start=40))
WARM = Partition("warm")
TIERED = {
    "remote_storage": 1, "retention_ms": 86_400_000, "retention_bytes": UNKNOWN,
    "local_retention_ms": UNKNOWN, "local_retention_bytes": UNKNOWN,
}  # fmt: skip


def grouped(*groups: Group, parts: tuple[Partition, ...] = (COLD, WARM)) -> ShardState:
    """A state in which these groups were read twice, so that their rates are known."""
    state = a_state(*parts, topics={part.topic: TIERED for part in parts}, at_ms=NOW_MS - 5_000)
    for at_ms in (NOW_MS - 5_000, NOW_MS):
        state = a_state(*parts, topics={p.topic: TIERED for p in parts}, at_ms=at_ms, since=state)
        read = [groups_frame(groups, at_ms), group_offsets_frame(groups, at_ms)]
        state, _ = step(state, read, at_ms)
    return state


STATE = grouped(
    Group("a/b", [(COLD, 30), (WARM, 90)], rack="az-a"),
    Group("idle", [(WARM, 100)]),
    Group("none", members=0, state=GroupState.EMPTY),
)


def test_groups_are_listed_with_their_sums():
    answer = a_client(a_store(STATE)).get("/api/v1/groups").json()
    assert answer["total"] == 3
    first, idle, none = answer["groups"]
    assert first["group"] == "a/b"
    assert (first["group_state"], first["group_type"]) == ("stable", "consumer")
    assert (first["lag_records"], first["remote_records"]) == (80, 10)
    assert first["if_leader_lost_remote_records"] == {"kafka": 60, "kip1303": 60, "kip501": 60}
    assert first["observed_at_ms"] == NOW_MS
    assert idle["lag_seconds"] == 0
    assert (none["group_state"], none["members"], "lag_records" in none) == ("empty", 0, False)


def test_one_group_is_listed_with_its_partitions():
    answer = a_client(a_store(STATE)).get("/api/v1/groups/a/b").json()
    assert answer["partitions_left_out"] == 0
    cold, warm = answer["partitions"]
    assert (cold["topic"], cold["partition"], cold["leader"], cold["rack"]) == (
        "cold",
        0,
        1,
        "az-a",
    )
    assert (cold["committed_offset"], cold["lag_records"], cold["records_per_s"]) == (30, 70, 0.0)
    assert (cold["reads_from"], cold["broker"], cold["remote_records"]) == ("remote", 1, 10)
    assert cold["until_remote_s"] == 0
    assert cold["if_leader_lost"]["kafka"]["remote_records"] == 60
    assert cold["if_leader_lost"]["kip1303"]["broker"] == 2
    assert (warm["reads_from"], warm["until_remote_s"], warm["never_remote"]) == (
        "disk",
        None,
        True,
    )


def test_a_partition_names_its_groups():
    answer = a_client(a_store(STATE)).get("/api/v1/partitions/warm/0").json()
    assert [each["group"] for each in answer["groups"]] == ["a/b", "idle"]
    assert [each["lag_records"] for each in answer["groups"]] == [10, 0]


def test_groups_are_chosen_by_topic_and_page():
    client = a_client(a_store(STATE))
    chosen = client.get("/api/v1/groups?topic=cold").json()
    assert [each["group"] for each in chosen["groups"]] == ["a/b"]
    page = client.get("/api/v1/groups?limit=1&offset=1").json()
    assert (page["total"], [each["group"] for each in page["groups"]]) == (3, ["idle"])


@pytest.mark.parametrize(
    ("path", "status"),
    [("groups?limit=x", 400), ("groups?group=a", 400), ("groups/nobody", 404)],
)
def test_what_is_wrong_with_a_question_is_one_line(path, status):
    answer = a_client(a_store(STATE)).get(f"/api/v1/{path}")
    assert answer.status_code == status
    assert len(answer.json()["error"].splitlines()) == 1


def test_of_a_group_that_two_shards_know_the_newest_says_what_it_is():
    far = step(STATE, [groups_frame([Group("idle", members=7)], NOW_MS + 1)], NOW_MS + 1)[0]
    client = a_client(a_store(STATE, far))
    assert client.get("/api/v1/groups/idle").json()["members"] == 7


def test_a_group_says_from_where_it_reads_how_many_partitions():
    groups = a_client(a_store(STATE)).get("/api/v1/groups").json()["groups"]
    reads = {each["group"]: {n: c for n, c in each["reads_from"].items() if c} for each in groups}
    assert reads == {"a/b": {"remote": 1, "disk": 1}, "idle": {"disk": 1}, "none": {}}
    assert [each["in_use"] for each in groups] == [True, True, False]


def test_partitions_that_nobody_would_lead_are_counted():
    alone = Partition("alone", replicas=(1,))
    client = a_client(a_store(grouped(Group("g", [(alone, 5), (WARM, 5)]), parts=(alone, WARM))))
    [one] = client.get("/api/v1/groups").json()["groups"]
    assert (one["if_leader_lost_unread"], one["reads_from"]["disk"]) == (1, 2)


def test_where_a_group_reads_is_counted_over_all_shards():
    far = replace(STATE, shard=1, shards=2)
    client = a_client(a_store(replace(STATE, shards=2), far))
    reads = client.get("/api/v1/groups/a/b").json()["reads_from"]
    assert (reads["remote"], reads["disk"], reads["unknown"]) == (2, 2, 0)


def test_groups_are_found_by_a_part_of_their_name():
    answer = a_client(a_store(STATE)).get("/api/v1/groups?search=A%2F").json()
    assert [each["group"] for each in answer["groups"]] == ["a/b"]


def test_the_worst_groups_come_first():
    offline = Partition("offline", leader=-1, isr=())
    state = grouped(
        Group("behind", [(WARM, 60)]), Group("calm", [(WARM, 100)]), Group("lags", [(WARM, 90)]),
        Group("remote", [(COLD, 30)]), Group("stands", [(offline, 10)]),
        Group("then-remote", [(COLD, 60)]),
        parts=(COLD, WARM, offline),
    )  # fmt: skip
    answer = a_client(a_store(state)).get("/api/v1/groups?sort=worst").json()
    names = [each["group"] for each in answer["groups"]]
    assert names[0] == "stands"
    assert names.index("remote") < names.index("then-remote") < names.index("behind")
    assert names.index("behind") < names.index("lags") < names.index("calm")
    page = a_client(a_store(state)).get("/api/v1/groups?sort=worst&limit=2&offset=1").json()
    assert [each["group"] for each in page["groups"]] == names[1:3]


def test_what_is_left_out_is_counted():
    parts = tuple(Partition("t", number) for number in range(MAX_ROWS + 5))
    state = grouped(Group("g", [(part, 1) for part in parts]), parts=parts)
    answer = a_client(a_store(state)).get("/api/v1/groups/g").json()
    assert (len(answer["partitions"]), answer["partitions_left_out"]) == (MAX_ROWS, 5)


def test_the_worst_partitions_of_a_group_are_listed_and_all_are_summed():
    alone = Partition("alone", replicas=(1,))
    state = grouped(Group("g", [(WARM, 10), (alone, 99), (COLD, 30)]), parts=(WARM, alone, COLD))
    far = replace(
        grouped(Group("g", [(COLD, 20)]), parts=(replace(COLD, replicas=(2, 1)),)),
        shard=1,
        shards=2,
    )
    client = a_client(a_store(replace(state, shards=2), far))
    answer = client.get("/api/v1/groups/g?limit=2").json()
    assert [each["topic"] for each in answer["partitions"]] == ["cold", "cold"]
    assert answer["partitions_left_out"] == 2
    first, second = answer["leaders"]
    assert (first["broker"], first["partitions"]) == (1, 3)
    assert first["if_lost"]["kafka"]["unread"] == 1
    assert (second["broker"], second["partitions"]) == (2, 1)
    whole = client.get("/api/v1/groups/g").json()["partitions"]
    for rule in ("kafka", "kip1303", "kip501"):
        of_first = [each["if_leader_lost"][rule] for each in whole if each["leader"] == 1]
        bytes_read = [then["remote_bytes"] for then in of_first if then["reads_from"] != "nobody"]
        assert first["if_lost"][rule]["remote_bytes"] == pytest.approx(sum(bytes_read))
        assert first["if_lost"][rule]["unknown"] == 0
    assert first["if_lost"]["kafka"]["remote_bytes"] > 0


def test_series_of_groups_are_of_the_granularity_and_at_risk_always():
    store = a_store(STATE)
    lags = {}
    for granularity in ("partition", "topic", "cluster"):
        text = samples(exposition(store, granularity=granularity))
        for (name, labels), value in text.items():
            if name.endswith("lag_records") and name.startswith("kafka_twin_group"):
                lags.setdefault(granularity, {})[name, dict(labels).get("topic")] = value
    assert ("kafka_twin_group_partition_lag_records", "warm") in lags["partition"]
    assert ("kafka_twin_group_partition_lag_records", "warm") not in lags["topic"]
    assert ("kafka_twin_group_topic_lag_records", "warm") in lags["topic"]
    assert ("kafka_twin_group_topic_lag_records", "warm") not in lags["cluster"]
    assert ("kafka_twin_group_lag_records", None) in lags["cluster"]
    at_risk = step(STATE, [groups_frame([], NOW_MS + 60_000, complete=False)], NOW_MS + 60_000)[0]
    text = samples(exposition(a_store(at_risk), granularity="cluster"))
    served = {dict(labels)["topic"] for name, labels in text if "group_partition" in name}
    assert served == {"cold"}
