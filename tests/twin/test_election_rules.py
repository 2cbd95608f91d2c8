"""What follows from elections exists once and is made for each election rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.asking import partition_object
from tests.builders import NOW_MS, Log, Partition, a_state, partitions_frame, replicas_frame
from tests.modules import module_of
from twin.builtin import CATALOG, catalog
from twin.declarations.declare import election_rule, gauge, rule
from twin.declarations.signature import DeclarationError, EachRule
from twin.declarations.table import KAFKA, NO_BROKER, UNKNOWN
from twin.engine.shard_state import ShardState
from twin.kafka.election import Outcome
from twin.proposals.kip501_election import Kip501Outages
from twin.questions import whatif
from twin.rules.election.ballots import Ballot, in_isr
from twin.rules.election.next_leader import NextLeaders
from twin.rules.election.standing import Standings
from twin.rules.isr.isr_shrinks import IsrShrinks
from twin.rules.partitions.leaders import LeaderEnds, Roles
from twin.step import step
from twin.totals import shard_totals

COUNTS = "kafka_twin_partitions_by_election_rule"
ALONE = Partition(isr=(1,), logs={1: Log(end=200)})  # 2 and 3 left the ISR


def left(state: ShardState, broker: int, pending: int, rejoined_at_ms: int = UNKNOWN) -> ShardState:
    """The state with that replica thrown out of the ISR of its first partition by leader 1."""
    values = {
        "row": 0, "leader": 1, "broker": broker, "at_ms": NOW_MS, "last_in_isr_at_ms": NOW_MS,
        "rejoined_at_ms": rejoined_at_ms, "logged_at_ms": NOW_MS, "verdict": 0, "evidence": 0,
        "fetch_was_pending": pending,
    }  # fmt: skip
    shrinks = IsrShrinks(
        **{c.name: np.array([values[c.name]], c.dtype) for c in IsrShrinks.columns}
    )
    return state.with_tables(shrinks)


def next_leader(state: ShardState, name: str) -> tuple[int, Outcome]:
    """Who leads the first partition once its leader is lost, by that rule."""
    following = state[NextLeaders.under(name)]
    return int(following.leader[0]), Outcome(int(following.outcome[0]))


def test_kip501_elects_a_replica_that_its_leader_should_have_kept():
    state = left(a_state(ALONE), 3, pending=1)
    assert next_leader(state, "kafka") == (NO_BROKER, Outcome.NONE)
    assert next_leader(state, "kip1303") == (NO_BROKER, Outcome.NONE)
    assert next_leader(state, "kip501") == (3, Outcome.CLEAN)
    assert state[Standings].in_sync.tolist() == [1]
    assert state[Standings.under("kip501")].in_sync.tolist() == [2]


@pytest.mark.parametrize(
    ("pending", "rejoined_at_ms"), [(0, UNKNOWN), (UNKNOWN, UNKNOWN), (1, NOW_MS)]
)
def test_kip501_does_not_elect_one_of_which_that_is_not_known(pending, rejoined_at_ms):
    state = left(a_state(ALONE), 3, pending, rejoined_at_ms)
    assert next_leader(state, "kip501") == (NO_BROKER, Outcome.NONE)


def test_an_outage_that_kip501_prevents_is_known_for_as_long_as_it_lasts():
    state, at_ms = left(a_state(ALONE), 3, pending=1), NOW_MS
    polled = replace(state[IsrShrinks], logged_at_ms=np.array([UNKNOWN]))
    state = state.with_tables(polled)
    lost = replace(ALONE, leader=NO_BROKER, offline=(1,), silent=(1,), epoch=2)
    for minutes in (1, 9, 11, 300):
        at_ms = NOW_MS + minutes * 60_000
        state, _ = step(state, [partitions_frame([lost], at_ms)], at_ms)
        assert state[Standings].leader.tolist() == [NO_BROKER]
        assert state[Standings.under("kip501")].leader.tolist() == [3], minutes
        assert len(state[IsrShrinks]) == (minutes < 10)
    at_ms += 5_000
    state, _ = step(state, [partitions_frame([replace(ALONE, epoch=3)], at_ms)], at_ms)
    assert len(state[Kip501Outages]) == 0
    assert state[Standings.under("kip501")].in_sync.tolist() == [1]


def test_kip501_does_not_elect_one_whose_disk_is_offline():
    state = left(a_state(Partition(isr=(1,), offline=(3,))), 3, pending=1)
    assert next_leader(state, "kip501") == (NO_BROKER, Outcome.NONE)


def test_a_rule_that_only_sorts_has_no_leader_where_kafka_has_none():
    """KIP-1303 tries the cold member of the ELR last: it cannot lead any sooner than by Kafka."""
    logs = {2: Log(local_start=50, size_bytes=1)}
    leaderless = Partition(isr=(), elr=(2,), leader=NO_BROKER, logs=logs)
    state = a_state(leaderless, eligible_local_log_bytes=100, elr_enabled=1)
    assert shard_totals(state)[COUNTS]["kafka", "offline"] == 1
    assert shard_totals(state)[COUNTS]["kip1303", "offline"] == 1


def test_the_states_of_partitions_are_counted_by_rule():
    samples = shard_totals(left(a_state(ALONE, min_insync_replicas=2), 3, pending=1))[COUNTS]
    assert samples["kafka", "under_min_isr"] == samples["kip1303", "under_min_isr"] == 1
    assert samples["kip501", "under_min_isr"] == 0
    assert samples["kafka", "offline_if_leader_lost"] == 1
    assert samples["kip501", "offline_if_leader_lost"] == 0
    nobody = shard_totals(left(a_state(Partition(isr=(1,), leader=NO_BROKER), fenced=[1]), 3, 1))
    assert nobody[COUNTS]["kafka", "offline"] == 1
    assert nobody[COUNTS]["kip501", "offline"] == 0
    assert nobody[COUNTS]["kafka", "under_min_isr"] == 0, "it is offline instead"


def test_partitions_that_nobody_described_count_in_no_state():
    state, _ = step(ShardState.empty(CATALOG, "c", 0, 1), [replicas_frame([Partition()])], NOW_MS)
    assert state.partitions == 1
    assert set(shard_totals(state)[COUNTS].values()) == {0}


def test_losing_brokers_is_answered_by_each_rule():
    loss = whatif.lose(left(a_state(ALONE), 3, pending=1), [1])
    leaders = {name: each.leader.tolist() for name, each in loss.next_leaders.items()}
    assert leaders == {"kafka": [NO_BROKER], "kip1303": [NO_BROKER], "kip501": [3]}


def test_the_api_has_an_object_for_each_rule():
    one = partition_object(left(a_state(ALONE), 3, 1), NOW_MS)
    assert one["standing"]["kafka"] == {"leader": 1, "in_sync": 1}
    assert one["next_leaders"]["kip501"]["leader"] == 3
    assert list(one["next_leaders"]) == list(CATALOG.election_rules)


@election_rule("last_first", "last first")
def last_first(roles: Roles) -> Ballot:
    """Candidates in the reverse order of the assignment."""
    slots = np.arange(roles.in_isr.shape[1], dtype=np.int8)[::-1]
    return Ballot(in_isr(roles), np.broadcast_to(slots, roles.in_isr.shape))


def test_a_package_adds_an_election_rule_by_one_function():
    more = catalog(more=[module_of("reverse", last_first)])
    assert more.election_rules["last_first"] == "last first"
    state = a_state(Partition(), since=ShardState.empty(more, "c", 0, 1))
    assert [next_leader(state, name)[0] for name in more.election_rules] == [2, 2, 2, 3]
    samples = shard_totals(state)["kafka_twin_broker_loss_partitions"]
    assert samples["1", "last_first", "clean", "not_judged"] == 1
    assert state[NextLeaders.under("last_first")].kind == "next_leader_last_first"


def test_a_rule_that_is_switched_off_is_nowhere():
    fewer = catalog(proposals=())
    assert list(fewer.election_rules) == [KAFKA]
    kinds = {table.kind for table in (*fewer.stored, *fewer.on_demand, *fewer.rules)}
    assert not [kind for kind in kinds if "kip1303" in kind or "kip501" in kind]


def test_what_other_rules_elect_is_not_stored():
    assert NextLeaders.stored
    assert not any(NextLeaders.under(name).stored for name in ("kip1303", "kip501"))


def refused(*declared) -> str:
    with pytest.raises(DeclarationError) as refusal:
        catalog(more=[module_of("mine", *declared)])
    return str(refusal.value)


def test_declarations_that_cannot_be_served_are_refused_with_their_names():
    @election_rule("kip1303", "once more")
    def again(roles: Roles) -> Ballot:
        return Ballot(in_isr(roles), roles.in_isr.astype(np.int8))

    assert refused(again) == "election rule kip1303 is declared twice"

    @election_rule("mine", "mine")
    def no_ballot(ends: LeaderEnds) -> LeaderEnds:
        return ends

    assert refused(no_ballot).endswith("no_ballot: the table leader_ends is not by_election_rule")
    with pytest.raises(DeclarationError, match="parameter ends reads leader_ends by election rule"):

        @gauge("ends", "Ends.", labels=("rule",))
        def by_rule(ends: EachRule[LeaderEnds]) -> dict[tuple[str], int]:
            return {}

    with pytest.raises(DeclarationError, match="it must return a table with a kind"):

        @rule
        def nothing(ends: LeaderEnds) -> int:
            return 0
