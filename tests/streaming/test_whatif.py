"""``kafka-twin whatif``: what a person reads."""

import io
import json
from dataclasses import asdict

import pytest
from click.testing import CliRunner

from streaming.cli import whatif
from streaming.cli.main import main
from streaming.cli.options import DURATION
from streaming.cli.whatif import print_answer
from streaming.questions.answer import Answer, WhatIfError, harm_lines
from streaming.questions.parameters import size_bytes
from tests.asking import answered
from tests.builders import NOW_MS, Log, Partition, a_state
from twin.questions.whatif_groups import HurtByChange
from twin.tables.enums import UNLIMITED

MIB = 1 << 20
STATE = a_state(
    Partition("orders", log=Log(local_start=1)),
    Partition("audit", replicas=(1,), log=Log(local_start=1, size_bytes=10)),
    topics={"orders": {
        "remote_storage": 1, "local_retention_ms": UNLIMITED, "local_retention_bytes": UNLIMITED,
    }},
)  # fmt: skip


def printed(answer: Answer, *, as_json: bool = False) -> str:
    out = io.StringIO()
    print_answer(answer, as_json, out)
    return out.getvalue()


def test_a_loss_shows_the_worst_first():
    text = printed(answered("lose", STATE, broker=[1]))
    assert text.startswith("Losing 1: 2 partitions lose their leader")
    assert "1 goes offline, 1 ends under min ISR" in text
    assert text.index("audit-0") < text.index("orders-0")
    assert "nobody" in text


def test_json_has_the_same_as_plain_data():
    data = json.loads(printed(answered("lose", STATE, broker=[1]), as_json=True))
    assert (data["brokers"], data["offline"]) == ([1], 1)
    assert [row["topic"] for row in data["partitions"]] == ["audit", "orders"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["lose"], "name what is lost: --broker 3, --rack az-a, or both"),
        (["threshold"], "give a threshold: --ms 10m, --bytes 100MiB, or both"),
        (["threshold", "--ms", "10q"], "'10q' is no duration; write 10m, 90s, 2h or milliseconds"),
        (["threshold", "--bytes", "5MB"], "'5MB' is no size; write 100MiB, 2GiB or bytes"),
        (["threshold", "--ms", "0"], "Invalid value for '--ms': it must be positive"),
        (
            ["bootstrap", "--broker", "1", "--rate", "0"],
            "Invalid value for '--rate': it must be positive",
        ),
        (["bootstrap"], "Missing option '--broker'"),
        (["lose", "--broker", "-1"], "Invalid value for '--broker': '-1' is not a number"),
        (["lose", "--each", "--broker", "1"], "--each cannot be combined with other options"),
        (["retention"], "give a retention: --local-ms 1h"),
    ],
)
def test_what_cannot_be_asked_is_one_clear_line(arguments, why):
    done = CliRunner().invoke(main, ["whatif", *arguments])
    assert done.exit_code != 0
    assert why in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (
            lambda: answered("lose", STATE, broker=[9]),
            "there is no broker 9; brokers are 1, 2, 3, 4, 5",
        ),
        (
            lambda: answered("lose", STATE, rack=["az-z"]),
            "no broker is in rack 'az-z'; racks are .'az-a'",
        ),
        (
            lambda: answered("bootstrap", STATE, broker=7, rate=1),
            "no broker 7; brokers are .*; new is for a broker",
        ),
        (
            lambda: answered("bootstrap", STATE, broker=5, rate=1, new=True),
            "broker 5 is there already",
        ),
    ],
)
def test_a_broker_or_rack_that_does_not_exist_is_an_error(ask, why):
    with pytest.raises(WhatIfError, match=why):
        ask()


@pytest.mark.parametrize(
    "answer",
    [
        answered("threshold", STATE, ms=600_000, bytes=100 * MIB, grid=True),
        answered("bootstrap", STATE, broker=2, rate=MIB),
        answered("retention", STATE, local_ms=3_600_000),
    ],
    ids=["threshold", "bootstrap", "retention"],
)
def test_every_answer_is_a_table_and_json(answer):
    assert "+---" in printed(answer)
    assert json.loads(printed(answer, as_json=True))


def test_a_long_table_is_cut_and_says_so():
    many = a_state(*(Partition("t", n) for n in range(whatif.MOST_ROWS + 3)))
    assert "3 more; --json has all of them" in printed(answered("lose", many, broker=[1]))


@pytest.mark.parametrize(
    ("text", "expected"), [("90s", 90_000), ("1.5h", 5_400_000), ("250", 250), ("2 d", 172_800_000)]
)
def test_durations(text, expected):
    assert DURATION.convert(text, None, None) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("100MiB", 100 * MIB), ("12", 12), ("1GiB", 1 << 30)]
)
def test_sizes(text, expected):
    assert size_bytes("a size").read(text) == expected


def test_a_grid_is_a_curve_in_the_threshold():
    rows = answered("threshold", STATE, bytes=1_000, grid=True).data["thresholds"]
    assert [row["local_log_bytes"] for row in rows] == [100, 250, 500, 1_000, 2_000, 4_000]
    cold = [row["cold_replicas"] for row in rows]
    assert cold == sorted(cold)


def test_a_threshold_for_one_topic_is_about_its_partitions():
    answer = answered("threshold", STATE, STATE, bytes=1_001, topic="orders")
    assert "for topic orders" in answer.lines[0]
    [row] = answer.data["thresholds"]
    assert (answer.data["topic"], row["cold_replicas"]) == ("orders", 6)
    with pytest.raises(WhatIfError, match="there is no topic payments"):
        answered("threshold", STATE, bytes=1_001, topic="payments")


def test_how_long_leaders_stay_out_of_balance_is_shown_with_what_is_unknown():
    young = a_state(Partition(logs={1: Log(local_start=1, started_ms=NOW_MS - 1_000)}))
    [row] = answered("threshold", young, ms=61_000).rows
    assert row[-2:] == (1, "1 m")
    [row] = answered("threshold", young, STATE, bytes=2_000).rows
    assert row[-2:] == (3, "3 unknown")


def test_topics_that_keep_their_own_thresholds_are_counted():
    state = a_state(topics={"t": {"eligible_local_log_ms": 1}})
    assert "1 topic keeps thresholds of its own" in answered("threshold", state, ms=60_000).lines[0]


def test_racks_are_lost_with_their_brokers_and_shards_are_joined():
    answer = answered("lose", STATE, STATE, rack=["az-a"])
    assert answer.data["brokers"] == [1, 4]
    assert len(answer.rows) == 4


def test_a_broker_that_has_nothing_and_a_new_one_take_over_a_fair_share():
    many = a_state(*(Partition("t", n) for n in range(12)))
    registered, new = (
        answered("bootstrap", many, broker=5, rate=100),
        answered("bootstrap", many, broker=7, rate=100, new=True),
    )
    assert "Broker 5, empty, copies a fair share of all replicas: 7" in registered.lines[0]
    assert "6 partitions" in new.lines[0]
    assert [way["seconds"] for way in new.data["ways"]] == [60.0, 60.0]


def test_a_broker_copies_the_replicas_it_has_unless_nobody_else_has_them():
    answer = answered("bootstrap", STATE, broker=1, rate=100)
    assert "Broker 1, empty, copies the replicas it has: 2 partitions. 1 has" in answer.lines[0]
    assert answer.data["without_source"] == 1


def test_retention_is_shown_in_units_a_person_reads_and_without_limit_as_minus_one():
    rows = {row[0]: row[1:] for row in answered("retention", STATE, local_ms=60_000).rows}
    assert rows["span kept, calmest"] == ("no limit", "1 m")
    data = answered("retention", STATE, local_ms=60_000).data
    assert (data["now"]["longest_span_ms"], data["then"]["longest_span_ms"]) == (-1, 60_000)


def test_local_retention_that_nobody_could_read_is_unknown_and_not_without_limit():
    unread = a_state(Partition("orders"), topics={"orders": {"remote_storage": 1}})
    answer = answered("retention", unread, local_ms=60_000)
    assert {row[0]: row[1:] for row in answer.rows}["span kept, calmest"] == ("unknown", "1 m")
    assert answer.data["now"]["longest_span_ms"] is None


def test_groups_that_are_hurt_are_named_the_worst_first():
    far = HurtByChange("far", 1, 0, 0, 2, 30, 4_096, 0)
    others = (HurtByChange(f"g{i}", 0, 0, 0, 1, 1, 0, 0) for i in range(6))
    lines = harm_lines([asdict(each) for each in (far, *others)])
    assert lines[0] == "7 groups of consumers are hurt; they read 4 KiB more from remote storage."
    assert lines[1] == "  far: 1 partition offline, 30 records (4 KiB) of 2 partitions"
    assert lines[-1] == "  and 2 more"
    assert harm_lines([]) == []
