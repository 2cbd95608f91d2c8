"""Remote storage is away from now on: the answer, as an operator reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from streaming.bus.view import ClusterView
from streaming.questions import QUESTIONS
from streaming.questions.tier_outage.disks import upload_rate
from tests.asking import a_view
from tests.builders import Group, Partition, group_offsets_frame, groups_frame
from tests.twin.disks.stage import (
    HOUR_S,
    MB,
    MINUTES,
    PLAIN,
    TIERED,
    Growing,
    cycles,
    one_shard,
    volumes,
)
from twin.declarations.table import UNKNOWN
from twin.engine.frames import Frame
from twin.engine.shard_state import ShardState

HOUR = TIERED | {"local_retention_ms": HOUR_S * 1_000, "segment_bytes": 10 * MB}
ORDERS = Growing("orders", age_s=2 * HOUR_S, keeps_s=HOUR_S)
"""1 MB/s, of which an hour is on disk: broker 1 leads, and broker 2 follows."""


def asked(
    free_gb: float = 36, parts: Sequence[Growing] = (ORDERS,), groups: Sequence[Group] = (),
    configs: Mapping[str, Mapping[str, int]] | None = None, **values: Any,
) -> tuple[dict[str, Any], list[str]]:  # fmt: skip
    """The data of the answer, and its lines."""
    state, own = shards(free_gb, parts, groups, configs)
    question = QUESTIONS["tier-outage"]
    data = question.data(a_view(state, cluster=own), values)
    return data, list(question.text(data).lines)


def shards(
    free_gb: float,
    parts: Sequence[Growing],
    groups: Sequence[Group] = (),
    configs: Mapping[str, Mapping[str, int]] | None = None,
) -> tuple[ShardState, ShardState]:
    settings = {name: dict(own) for name, own in (configs or {"orders": HOUR}).items()}

    def with_groups(frames: list[Frame], at_ms: int) -> tuple[list[Frame], int]:
        more = [groups_frame(groups, at_ms), group_offsets_frame(groups, at_ms)] if groups else []
        return [*frames, *more], at_ms

    of_cycles = cycles(parts, volumes(free_gb), settings, MINUTES)
    return one_shard(with_groups(frames, at_ms) for frames, at_ms in of_cycles)


def test_the_first_line_is_how_long_the_cluster_lasts():
    data, lines = asked(36)
    # An hour of uploaded records is deleted first, and then nothing: 36 GB at 1 MB/s.
    assert data["survived"] == "full"
    assert data["survived_s"] == pytest.approx(11 * HOUR_S, rel=0.02)
    assert lines[0] == "Broker 1 has a full disk in 11 h."
    assert [each["broker"] for each in data["brokers"]] == [1, 2]


def test_an_outage_that_lasts_longer_says_what_is_missing_and_what_would_free_it():
    data, lines = asked(36, for_=12 * HOUR_S * 1_000)
    assert [each["missing_bytes"] for each in data["brokers"]] == pytest.approx(
        [3_600 * MB, 3_600 * MB], rel=0.06
    )
    assert any(line.startswith("For 12 h the disks of these brokers lack") for line in lines)
    assert data["help"] == [
        "kafka-configs.sh --alter --entity-type topics --entity-name orders --add-config "
        f"local.retention.ms={data['help'][0].rpartition('=')[2]}"
    ]
    kept_ms = int(data["help"][0].rpartition("=")[2])
    assert 0 <= kept_ms < 0.2 * HOUR_S * 1_000


def test_a_short_outage_lacks_nothing_and_needs_no_help():
    data, _ = asked(36, for_=HOUR_S * 1_000)
    assert [each["missing_bytes"] for each in data["brokers"]] == [0, 0]
    assert data["help"] == []


def test_what_retention_would_have_deleted_is_kept():
    data, _ = asked(36, for_=6 * HOUR_S * 1_000)
    # Of six hours that are written, the hour that is uploaded is deleted all the same.
    assert data["brokers"][0]["kept_bytes"] == pytest.approx(5 * 3_600 * MB, rel=0.03)


def test_uploads_catch_up_at_the_rate_that_is_given():
    data, _ = asked(for_=6 * HOUR_S * 1_000, upload_bytes_per_s=3 * MB)
    by_broker = {each["broker"]: each for each in data["brokers"]}
    # 6 hours of 1 MB/s, at 2 MB/s more than is written.
    assert by_broker[1]["catch_up"] == "after"
    assert by_broker[1]["catch_up_after_s"] == pytest.approx(3 * HOUR_S, rel=0.01)
    assert by_broker[2]["catch_up"] == "nothing_to_upload", "it leads nothing"


def test_what_is_in_the_open_segment_has_not_to_be_caught_up_with():
    opened_s = MINUTES[-1] - 2_000
    orders = Growing("orders", age_s=2 * HOUR_S, keeps_s=HOUR_S, uploaded_until_s=opened_s)
    configs = {"orders": HOUR | {"segment_bytes": 3_000 * MB}}
    data, _ = asked(
        parts=[orders], configs=configs, for_=6 * HOUR_S * 1_000, upload_bytes_per_s=3 * MB
    )
    by_broker = {each["broker"]: each for each in data["brokers"]}
    assert by_broker[1]["waiting_bytes"] == pytest.approx(2_000 * MB, rel=0.01)
    assert by_broker[1]["catch_up_after_s"] == pytest.approx(3 * HOUR_S, rel=0.01)


def test_uploads_that_are_no_faster_than_what_is_written_never_catch_up():
    data, _ = asked(upload_bytes_per_s=MB // 2)
    assert data["brokers"][0]["catch_up"] == "never"


def test_without_a_rate_nobody_knows_when_uploads_have_caught_up():
    data, _ = asked()
    assert data["brokers"][0]["catch_up"] == "unknown"
    assert data["brokers"][0]["catch_up_after_s"] is None


@pytest.mark.parametrize(
    ("given", "seen", "quota", "said"),
    [
        (3 * MB, 5.0 * MB, 2 * MB, ("given", 3 * MB)),
        (UNKNOWN, 5.0 * MB, UNKNOWN, ("measured", 5 * MB)),
        (UNKNOWN, 5.0 * MB, 2 * MB, ("measured", 2 * MB)),
        (UNKNOWN, 1.1 * MB, 2 * MB, ("quota", 2 * MB)),  # as much as is written: no catching up
        (UNKNOWN, 1.1 * MB, 2**63 - 1, ("unknown", UNKNOWN)),  # Kafka's default is no quota
    ],
)
def test_a_rate_that_was_given_counts_then_one_of_catching_up_then_the_quota(
    given: int, seen: float, quota: int, said: tuple[str, int]
):
    assert upload_rate(given, seen, quota, written=1.0 * MB) == said


def test_what_only_remote_storage_has_and_who_reads_it():
    old = Group("reports", ((Partition("orders", 0, (1, 2)), 1_000),), members=1, assigned=1)
    data, lines = asked(groups=[old])
    assert data["on_no_disk"]["partitions"] == 1
    [group] = data["groups"]
    assert (group["group"], group["now"]["partitions"]) == ("reports", 1)
    assert group["now"]["records"] == data["on_no_disk"]["records"] - 1_000
    assert any(line.startswith("  reports cannot read ") for line in lines)
    assert data["no_new_replica"] == 1
    [offsets] = data["ranges_on_no_disk"]
    assert (offsets["topic"], offsets["partition"], offsets["first_offset"]) == ("orders", 0, 0)
    assert offsets["end_offset"] == data["on_no_disk"]["records"]
    assert offsets["bytes"] == data["on_no_disk"]["bytes"]
    assert any(line.startswith("  orders-0: 0 to ") for line in lines)


def test_a_group_at_the_log_end_reads_on():
    end = round((2 * HOUR_S + MINUTES[-1]) * MB / 1_000)
    new = Group("live", ((Partition("orders", 0, (1, 2)), end),), members=1, assigned=1)
    assert asked(groups=[new])[0]["groups"] == []


def test_a_broker_that_is_lost_meanwhile_has_no_row():
    data, lines = asked(broker=[1])
    assert [each["broker"] for each in data["brokers"]] == [2]
    assert data["lost"] == [1]
    assert data["brokers"][0]["written_bytes_per_s"] == pytest.approx(MB, rel=0.01), "it leads then"
    assert lines[0].endswith(", without 1.")


def test_topics_that_are_not_tiered_fill_disks_as_they_do_anyway():
    data, lines = asked(parts=[Growing("orders")], configs={"orders": PLAIN})
    assert lines == ["No partition is known to be tiered: remote storage is not missed."]
    assert data["survived_s"] == pytest.approx(10 * HOUR_S - MINUTES[-1], rel=0.01)


def test_of_a_cluster_that_nobody_has_reported_yet_nothing_is_foretold():
    state, _ = shards(36, [ORDERS])
    question = QUESTIONS["tier-outage"]
    assert question.data(ClusterView(), {})["survived"] == "unknown"
    data = question.data(a_view(state), {})
    assert (data["survived"], data["survived_s"], data["brokers"][0]["missing_bytes"]) == (
        "unknown",
        None,
        None,
    )
    assert "When disks are full is unknown." in question.text(data).lines
    assert data["on_no_disk"]["partitions"] == 1, "what shards know is said"


def test_topics_and_groups_of_several_shards_are_put_together():
    states = []
    for topic in ("orders", "payments"):
        group = Group(f"of-{topic}", ((Partition(topic, 0, (1, 2)), 1_000),), 1, 1)
        part = Growing(topic, age_s=2 * HOUR_S, keeps_s=HOUR_S)
        states.append(shards(36, [part], [group], {topic: HOUR})[0])
    data = QUESTIONS["tier-outage"].data(a_view(*states), {})
    assert data["on_no_disk"]["partitions"] == data["tiered_partitions"] == 2
    assert [each["topic"] for each in data["ranges_on_no_disk"]] == ["orders", "payments"]
    assert sorted(each["topic"] for each in data["topics"]) == ["orders", "payments"]
    assert sorted(each["group"] for each in data["groups"]) == ["of-orders", "of-payments"]
