"""What differs between two moments: compared with a plain loop over what the API answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from streaming.cli.main import main
from streaming.exporter.capsule_server import source_of
from streaming.exporter.web_application import application
from streaming.history.capsules.opening import Capsule
from streaming.history.capsules.saving import save
from streaming.history.differences.compared import differences_of
from streaming.history.differences.text import text
from streaming.history.moment import time_text
from streaming.history.past import PastView
from tests.asking import a_view
from tests.builders import NOW_MS, Partition, a_state
from tests.exporter.serving import served
from tests.history.recorded import a_recording, at
from tests.simulator.shard import Shape
from twin.arrays.plain import counted
from twin.builtin import CATALOG
from twin.engine.shard_state import ShardState
from twin.tables.enums import NOT_SET, UNLIMITED

CYCLES = 40
SHAPE = Shape(topics=3, partitions=4, brokers=5)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    file = tmp_path_factory.mktemp("capsule") / "c"
    save(a_recording(CYCLES, 2, seed=3, shape=SHAPE), CATALOG, at(0), at(CYCLES - 1), file)
    with closing(Capsule(file)) as opened:
        yield TestClient(application(source_of(opened)))


def answer(api: TestClient, path: str, **parameters: Any) -> Any:
    given = api.get(f"/api/v1/{path}", params=parameters)
    assert given.status_code == 200, given.text
    return given.json()


def diff(api: TestClient, one: int, other: int, **more: Any) -> Any:
    return answer(api, "diff", **{"from": time_text(at(one)), "to": time_text(at(other))}, **more)


def partitions(api: TestClient, cycle: int) -> dict[tuple[str, int], Any]:
    found = answer(api, "partitions", at=time_text(at(cycle)), limit=1_000)["partitions"]
    return {(each["topic"], each["partition"]): each for each in found}


def isr(partition: Any) -> list[int]:
    return sorted(each["broker"] for each in partition["replicas"] if each["in_isr"])


def by_a_loop(before: Any, after: Any) -> dict[tuple[str, int], Any]:
    found = {}
    for name in before.keys() & after.keys():
        was, now = before[name], after[name]
        leaders = was["leader"], now["leader"]
        isrs = isr(was), isr(now)
        risks = {*was["risks"]}, {*now["risks"]}
        replicas = [[each["broker"] for each in of["replicas"]] for of in (was, now)]
        expected = {
            "leader": leaders if leaders[0] != leaders[1] else None,
            "isr": isrs if isrs[0] != isrs[1] else None,
            "replicas": tuple(replicas) if replicas[0] != replicas[1] else None,
            "risks_opened": risks[1] - risks[0],
            "risks_closed": risks[0] - risks[1],
        }
        if any(expected.values()):
            found[name] = expected
    return found


def as_said(partition: Any) -> Any:
    pairs = {
        name: partition[name] and (partition[name]["before"], partition[name]["after"])
        for name in ("leader", "isr", "replicas")
    }
    return pairs | {name: {*partition[name]} for name in ("risks_opened", "risks_closed")}


def a_moment(*states: ShardState, complete: bool = True) -> PastView:
    return PastView(a_view(*states), NOW_MS, 5_000, complete)


def between(before: ShardState, after: ShardState, limit: int = 100, offset: int = 0) -> Any:
    return differences_of(a_moment(before), a_moment(after), limit, offset)


def test_a_moment_does_not_differ_from_itself(api):
    for cycle in (0, CYCLES // 2, CYCLES - 1):
        found = diff(api, cycle, cycle)
        assert not any(found["counts"].values())
        assert (found["total"], found["partitions"]) == (0, [])
        assert (found["brokers"], found["topics"]) == ([], [])
        assert found["compared"] == len(partitions(api, cycle))


def test_twenty_random_pairs_differ_as_a_loop_over_their_partitions_says(api):
    random = np.random.default_rng(29)
    differing = 0
    for pair in random.integers(0, CYCLES, (20, 2)):
        one, other = sorted(pair.tolist())
        expected = by_a_loop(partitions(api, one), partitions(api, other))
        found = diff(api, one, other, limit=1_000)
        said = {(each["topic"], each["partition"]): as_said(each) for each in found["partitions"]}
        assert said == expected
        assert found["total"] == len(expected)
        counts = found["counts"]
        assert counts["leaders"] == sum(each["leader"] is not None for each in expected.values())
        assert counts["isrs"] == sum(each["isr"] is not None for each in expected.values())
        assert counts["risks_opened"] == sum(len(e["risks_opened"]) for e in expected.values())
        assert counts["risks_closed"] == sum(len(e["risks_closed"]) for e in expected.values())
        differing += len(expected)
    assert differing > 20


def test_brokers_differ_as_a_loop_over_them_says(api):
    for one, other in ((0, 15), (15, 30), (0, CYCLES - 1)):
        stands = [
            {
                each["broker"]: {name: each[name] for name in ("listed", "fenced", "answered")}
                for each in answer(api, "brokers", at=time_text(at(cycle)))["brokers"]
            }
            for cycle in (one, other)
        ]
        expected = [id_ for id_ in sorted(stands[0]) if stands[0][id_] != stands[1][id_]]
        found = diff(api, one, other)
        assert [each["broker"] for each in found["brokers"]] == expected
        assert found["counts"]["brokers"] == len(expected)
        for each in found["brokers"]:
            assert (each["before"], each["after"]) == tuple(of[each["broker"]] for of in stands)


def test_pages_follow_each_other_and_the_worst_opened_risk_comes_first(api):
    whole = diff(api, 0, CYCLES - 1, limit=1_000)
    pages = [diff(api, 0, CYCLES - 1, limit=3, offset=n) for n in range(0, whole["total"] + 3, 3)]
    assert [each for page in pages for each in page["partitions"]] == whole["partitions"]
    assert {page["total"] for page in pages} == {whole["total"]}
    ranks = [
        min((CATALOG.risk_names.index(risk) for risk in each["risks_opened"]), default=99)
        for each in whole["partitions"]
    ]
    assert ranks == sorted(ranks)


def test_partitions_are_matched_by_topic_and_number_and_not_by_row():
    before = a_state(Partition("b", 0), Partition("c", 0, leader=2), Partition("d", 0))
    after = a_state(
        Partition("a", 0), Partition("b", 0), Partition("c", 0, leader=3), Partition("c", 1)
    )
    found = between(before, after)
    assert [(each.topic, each.partition, each.change) for each in found.partitions] == [
        ("c", 0, "changed"), ("a", 0, "came"), ("c", 1, "came"), ("d", 0, "went"),
    ]  # fmt: skip
    assert (found.partitions[0].leader.before, found.partitions[0].leader.after) == (2, 3)
    assert (found.counts.partitions_came, found.counts.partitions_went) == (2, 1)
    assert (found.compared, found.total) == (2, 4)


def test_an_assignment_that_became_wider_or_another_order_differs():
    before = a_state(Partition("a", 0, (1, 2)), Partition("a", 1, (1, 2)), Partition("a", 2, (1,)))
    after = a_state(
        Partition("a", 0, (1, 2, 3), isr=(1, 2)),
        Partition("a", 1, (2, 1), leader=1),
        Partition("a", 2, (1,)),
    )
    found = between(before, after)
    said = {each.partition: each.replicas for each in found.partitions}
    assert {number: (each.before, each.after) for number, each in said.items()} == {
        0: ([1, 2], [1, 2, 3]),
        1: ([1, 2], [2, 1]),
    }
    assert (found.counts.replicas, found.counts.isrs, found.counts.leaders) == (2, 0, 0)


def test_settings_that_differ_are_said_by_topic():
    part = Partition("orders")
    bounded = {"retention_ms": 3_600_000, "local_retention_ms": 60_000}
    other = {"retention_ms": UNLIMITED, "local_retention_ms": NOT_SET}
    before = a_state(part, topics={"orders": bounded}, min_insync_replicas=1)
    after = a_state(part, topics={"orders": other, "new": {}}, min_insync_replicas=2)
    found = between(before, after)
    assert found.counts.topics == 2
    assert [each.topic for each in found.topics] == ["", "orders"]
    pairs = {
        name: (v.before, v.after) for each in found.topics for name, v in each.settings.items()
    }
    assert pairs["min_insync_replicas"] == (1, 2)
    assert pairs["retention_ms"] == (3_600_000, -1), "without a limit"
    assert pairs["local_retention_ms"] == (60_000, None), "nobody could read it"
    lines = text(json.loads(json_of(found))).lines
    assert "settings of the cluster: min_insync_replicas 1 → 2" in lines
    assert (
        "settings of orders: local_retention_ms 60000 → unknown or not set, "
        "retention_ms 3600000 → -1"
    ) in lines


def test_a_shard_that_one_moment_lacks_is_counted_and_not_compared():
    found = differences_of(a_moment(a_state()), PastView(a_view(), NOW_MS, 5_000, False), 10)
    assert (found.shards_not_compared, found.total) == (1, 0)
    assert not found.after.complete


def test_a_person_reads_counts_first_and_then_what_differs():
    before = a_state(Partition("orders", 0), Partition("audit", 0), brokers=(1, 2, 3))
    after = a_state(Partition("orders", 0, isr=(2, 3), leader=2), brokers=(2, 3))
    found = text(json.loads(json_of(between(before, after))))
    assert "1 leader, 1 ISR and 0 assignments differ" in found.lines[0]
    assert "0 partitions came, 1 went" in found.lines[0]
    assert "broker 1 went" in found.lines
    assert tuple(found.rows[0][:4]) == ("orders-0", "1 → 2", "1, 2, 3 → 2, 3", "")
    assert found.rows[1][0] == "audit-0 went"


def json_of(found: Any) -> bytes:
    return msgspec.json.encode(found)


def test_the_command_says_the_same_as_the_exporter(api, tmp_path: Path):
    file = tmp_path / "c"
    save(a_recording(CYCLES, 2, seed=3, shape=SHAPE), CATALOG, at(0), at(CYCLES - 1), file)
    with closing(Capsule(file)) as opened:
        source = source_of(opened)
        with served(application(source), source.events) as url:
            call = ["diff", "--from", time_text(at(0)), "--url", url]
            plain = CliRunner().invoke(main, [*call, "--json"])
            said = CliRunner().invoke(main, call)
            turned = CliRunner().invoke(main, [*call, "--to", "-10h"])
    data = json.loads(plain.output)
    assert data == diff(api, 0, CYCLES - 1, limit=1_000)
    assert f"{counted(data['counts']['leaders'], 'leader')}, " in said.output
    assert data["partitions"][0]["topic"] in said.output
    assert turned.exit_code == 1
    assert turned.output.startswith("Error: to: ")
    assert "is before the beginning" in turned.output
    assert turned.output.count("\n") == 1
