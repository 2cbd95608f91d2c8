"""What if: losses, thresholds, an empty broker, another local retention."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import NOW_MS, Log, Partition, a_state, empty
from tests.examples import examples
from tests.simulator.shard import Shape, SimulatedShard
from twin.declarations.table import NO_BROKER, UNKNOWN
from twin.engine.shard_state import ShardState
from twin.kafka.election import Outcome
from twin.questions import local_log, whatif
from twin.rules.election.next_leader import NextLeaders
from twin.step import step
from twin.tables.enums import UNLIMITED, PendingUpload
from twin.tables.state import Brokers, Configs, Partitions, Replicas

MIB = 1 << 20
HOUR_MS = 3_600_000
TIERED = {"t": {
    "remote_storage": 1, "copies_disabled": 0, "local_retention_ms": UNLIMITED,
    "local_retention_bytes": UNLIMITED,
}}  # fmt: skip


def a_shard(seed: int) -> ShardState:
    state = empty("sim")
    for frames in SimulatedShard(Shape(topics=3, partitions=12), seed).run(4, NOW_MS):
        state, _ = step(state, frames, frames[0].header.observed_at_ms)
    return state


class TestLose:
    def test_losing_one_broker_is_what_the_state_predicts_of_its_leaders(self):
        state = a_shard(3)
        leader, kafka, kip1303 = (
            state[Partitions].leader,
            state[NextLeaders],
            state[NextLeaders.under("kip1303")],
        )
        for broker in state[Brokers].broker.tolist():
            loss = whatif.lose(state, [broker])
            led = leader[loss.row] == broker
            rows = loss.row[led]
            assert (leader == broker).sum() == led.sum()
            assert loss.kafka.leader[led].tolist() == kafka.leader[rows].tolist()
            then = loss.next_leaders["kip1303"]
            assert then.outcome[led].tolist() == kip1303.outcome[rows].tolist()
            assert then.coverage[led].tolist() == kip1303.coverage[rows].tolist()

    def test_two_at_once_skip_the_successor_that_is_lost_as_well(self):
        loss = whatif.lose(a_state(Partition()), [1, 2])
        assert (loss.kafka.leader.tolist(), loss.isr.tolist()) == ([3], [1])
        assert loss.offline.tolist() == [False]

    def test_all_of_them_take_it_offline(self):
        loss = whatif.lose(a_state(Partition()), [1, 2, 3])
        assert loss.kafka.leader.tolist() == [NO_BROKER]
        assert loss.offline.all()

    def test_a_leader_that_is_not_lost_stays_and_only_a_short_isr_counts(self):
        state = a_state(Partition(), min_insync_replicas=2)
        assert len(whatif.lose(state, [3]).row) == 0
        loss = whatif.lose(state, [2, 3])
        assert (loss.kafka.leader.tolist(), loss.under_min_isr.tolist()) == ([1], [True])

    def test_min_isr_is_that_of_the_leader_and_not_of_the_topics_first_partition(self):
        state = a_state(
            Partition(number=0, replicas=(3,)), Partition(number=1), min_insync_replicas=2
        )
        loss = whatif.lose(state, [1, 2])
        assert (loss.row.tolist(), loss.min_isr.tolist()) == ([1], [2])
        assert loss.under_min_isr.tolist() == [True]

    def test_a_broker_that_holds_nothing_is_missed_by_nobody(self):
        assert len(whatif.lose(a_state(Partition()), [5]).row) == 0

    def test_a_rack_is_its_brokers(self):
        assert whatif.brokers_in(a_state(), ["az-a", "az-c"]) == [1, 3, 4]

    @examples(60)
    @given(
        seed=st.integers(0, 50), lost=st.sets(st.integers(1, 6), max_size=5),
        more=st.sets(st.integers(1, 6), max_size=3), elr=st.booleans(), unclean=st.booleans(),
    )  # fmt: skip
    def test_losing_more_is_never_safer(self, seed, lost, more, elr, unclean):
        state = a_shard(seed)
        held = state[Configs]
        configs = replace(
            held,
            elr_enabled=held.elr_enabled * 0 + int(elr),
            unclean_leader_election=held.unclean_leader_election * 0 + int(unclean),
        )
        assert_never_safer(state.with_tables(configs), lost, lost | more)

    @examples(200)
    @given(
        marks=st.lists(st.sampled_from(["isr", "elr", "out"]), min_size=4, max_size=4),
        offline=st.sets(st.integers(1, 4)), fenced=st.sets(st.integers(1, 4)),
        leader=st.sampled_from([1, 2, 3, 4, NO_BROKER]), least=st.integers(1, 4),
        last=st.sets(st.integers(1, 4), max_size=1), elr=st.booleans(), unclean=st.booleans(),
        lost=st.sets(st.integers(1, 4)), more=st.sets(st.integers(1, 4)),
    )  # fmt: skip
    def test_losing_more_is_never_safer_also_in_states_that_no_controller_would_leave(
        self, marks, offline, fenced, leader, least, last, elr, unclean, lost, more
    ):
        named = {mark: tuple(b for b in (1, 2, 3, 4) if marks[b - 1] == mark) for mark in marks}
        part = Partition(
            replicas=(1, 2, 3, 4), isr=named.get("isr", ()), elr=named.get("elr", ()),
            last_known=tuple(last), offline=tuple(offline), leader=leader,
        )  # fmt: skip
        state = a_state(
            part, fenced=tuple(fenced), min_insync_replicas=least, elr_enabled=int(elr),
            unclean_leader_election=int(unclean),
        )  # fmt: skip
        assert_never_safer(state, lost, lost | more)

    def test_a_replica_that_is_fenced_already_does_not_keep_the_isr_from_being_empty(self):
        part = Partition(isr=(1, 2), elr=(3,), offline=(2,))
        state = a_state(part, elr_enabled=1, min_insync_replicas=3)
        loss = whatif.lose(state, [1])
        assert loss.kafka.leader.tolist() == [3]
        assert loss.kafka.outcome.tolist() == [Outcome.ELR]
        assert loss.isr.tolist() == [1]  # who is elected from the ELR is the ISR then


def assert_never_safer(state: ShardState, fewer: set[int], more: set[int]) -> None:
    few, many = (outcomes(state, brokers) for brokers in (fewer, more))
    assert all(few.get(row, 0) <= worse for row, worse in many.items())
    assert set(few) <= set(many)


def outcomes(state: ShardState, brokers: set[int]) -> dict[int, int]:
    """How unsafe each partition is that loses its leader."""
    loss = whatif.lose(state, brokers)
    return dict(zip(loss.row.tolist(), loss.kafka.outcome.tolist(), strict=True))


class TestThresholds:
    def answer(self, ms: int = UNKNOWN, size: int = UNKNOWN) -> local_log.Threshold:
        warm, cold = (
            Log(size_bytes=2 * MIB),
            Log(local_start=1, size_bytes=10, started_ms=NOW_MS - 1_000),
        )
        part = Partition(logs={1: cold}, log=warm)
        return local_log.eligibility(a_state(part, topics=TIERED), ms, size)

    def test_a_threshold_that_is_off_leaves_all_as_it_is(self):
        answer = self.answer()
        assert (answer.cold_replicas, answer.moved_leaders) == (0, 0)
        assert dict(answer.leaders_by_rack) == {"az-a": 1, "az-b": 0, "az-c": 0}

    @pytest.mark.parametrize("by", [{"size": MIB}, {"ms": HOUR_MS // 2}])
    def test_a_cold_leader_moves_once_leaders_are_balanced(self, by):
        answer = self.answer(**by)
        assert (answer.cold_replicas, answer.cold_leaders, answer.moved_leaders) == (1, 1, 1)
        assert dict(answer.leaders_by_rack) == {"az-a": 0, "az-b": 1, "az-c": 0}
        assert answer.rack_skew == 3

    def test_shards_add_up(self):
        one = self.answer(size=MIB)
        both = one + one
        assert (both.cold_replicas, dict(both.leaders_by_rack)["az-b"]) == (2, 2)
        assert (both.preferred_cold, both.balanced_in_s) == (2, one.balanced_in_s)

    @given(low=st.integers(1, 4 * MIB), more=st.integers(0, MIB))
    def test_a_higher_threshold_never_has_fewer_cold_replicas(self, low, more):
        counts = [self.answer(size=size).cold_replicas for size in (low, low + more)]
        assert counts == sorted(counts)

    def test_topics_keep_thresholds_of_their_own(self):
        log = Log(local_start=1, size_bytes=10)
        parts = (Partition("a", log=log), Partition("b", log=log))
        state = a_state(*parts, topics={"b": {"eligible_local_log_bytes": 5}})
        assert local_log.topics_with_thresholds(state) == 1
        assert local_log.eligibility(state, UNKNOWN, MIB).cold_replicas == 3

    @pytest.mark.parametrize(("topic", "cold"), [("a", 3), ("b", 6)])
    def test_for_one_topic_only_its_partitions_are_judged(self, topic, cold):
        log = Log(local_start=1, size_bytes=10)
        parts = (Partition("a", log=log), *(Partition("b", n, log=log) for n in range(2)))
        state = local_log.of_topic(
            a_state(*parts, topics={"b": {"eligible_local_log_bytes": 5}}), topic
        )
        answer = local_log.eligibility(state, UNKNOWN, MIB, topic)
        assert (answer.cold_replicas, answer.local_log_bytes) == (cold, MIB)

    def test_a_higher_threshold_keeps_leaders_out_of_balance_for_longer(self):
        cold = Log(local_start=1, started_ms=NOW_MS - 60_000)
        state = a_state(Partition(logs={1: cold}))
        answer = [local_log.eligibility(state, ms, UNKNOWN) for ms in (60_000, 90_000, 180_000)]
        assert [each.preferred_cold for each in answer] == [0, 1, 1]
        assert [each.balanced_in_s for each in answer] == [0, 30, 120]

    def test_a_follower_that_is_cold_keeps_no_leader_out_of_balance(self):
        answer = self.answer_for(
            Partition(logs={2: Log(local_start=1, size_bytes=10)}, log=Log(size_bytes=MIB))
        )
        assert (answer.cold_replicas, answer.preferred_cold, answer.balanced_in_s) == (1, 0, 0)

    def test_when_it_is_warm_is_unknown_without_a_rate_and_never_above_local_retention(self):
        part = Partition(log=Log(local_start=1, size_bytes=10))
        answer = self.answer_for(part)  # one cycle gives no rate
        assert (answer.preferred_cold, answer.preferred_eta_unknown) == (1, 1)
        answer = self.answer_for(part, local_retention_bytes=1_000)
        assert (answer.preferred_cold, answer.preferred_never_warm) == (1, 1)
        assert answer.balanced_in_s == 0

    def answer_for(self, part: Partition, **configs: int) -> local_log.Threshold:
        state = a_state(part, topics={"t": {"remote_storage": 1, **configs}})
        return local_log.eligibility(state, UNKNOWN, MIB)

    def test_it_can_be_asked_where_no_cluster_wide_value_is_known(self):
        state = a_state(Partition(log=Log(local_start=1, size_bytes=10)))
        bare = state.with_tables(Configs.empty())
        assert local_log.eligibility(bare, UNKNOWN, MIB).cold_replicas == 3


LOG = Log(end=1_000, local_start=500, size_bytes=5_000, last_tiered=899, pending_upload=900,
          reason=PendingUpload.KNOWN)  # fmt: skip
IDLE = Log(end=50, local_start=50, size_bytes=0, last_tiered=49, reason=PendingUpload.ALL_TIERED)


class TestBootstrap:
    def test_an_empty_broker_copies_less_with_the_feature(self):
        parts = [Partition(number=0, log=LOG), Partition(number=1, log=IDLE),
                 Partition(number=2, replicas=(4, 5))]  # fmt: skip
        state = a_state(*parts, topics=TIERED)
        cost = whatif.bootstrap_cost(state, 2, whatif.replicas_on(state, 2))
        assert (cost.partitions, cost.cannot_start, cost.unknown) == (2, 1, 0)
        assert (cost.records_on, cost.records_off) == (100, 500)
        assert (cost.bytes_on, cost.bytes_off) == (1_000, 5_000)
        assert dict(cost.paths) == {"from_pending_upload": 1, "stuck_idle": 1}
        assert (cost + cost).partitions == 4

    def test_it_copies_from_the_next_leader_what_it_led(self):
        state = a_state(Partition(log=LOG, logs={2: replace(LOG, end=990)}), topics=TIERED)
        cost = whatif.bootstrap_cost(state, 1, whatif.replicas_on(state, 1))
        assert cost.records_on == 90

    def test_what_nobody_else_holds_has_no_source(self):
        state = a_state(Partition(replicas=(1,), log=LOG), topics=TIERED)
        cost = whatif.bootstrap_cost(state, 1, whatif.replicas_on(state, 1))
        assert (cost.partitions, cost.without_source, cost.unknown) == (1, 1, 0)
        assert (cost.records_on, cost.bytes_off, cost.paths) == (0, 0.0, ())

    @given(factors=st.lists(st.integers(1, 5), min_size=1, max_size=30), brokers=st.integers(5, 9))
    def test_a_newcomers_share_is_even_and_meets_no_partition_twice(self, factors, brokers):
        parts = [
            Partition(number=number, replicas=tuple(range(1, factor + 1)))
            for number, factor in enumerate(factors)
        ]
        share = whatif.fair_share(a_state(*parts), brokers)
        assert len(share) == sum(factors) // (brokers + 1)
        assert len(set(share.tolist())) == len(share)


class TestLocalRetention:
    HELD = Log(local_start=1, size_bytes=4 * MIB, started_ms=NOW_MS - 4 * HOUR_MS)

    def footprint(
        self, ms: int = UNKNOWN, size: int = UNKNOWN, **config: int
    ) -> local_log.Footprint:
        cluster = {"eligible_local_log_bytes": 2 * MIB, **config}
        state = a_state(Partition(log=self.HELD), topics=TIERED, **cluster)
        return local_log.local_footprint(local_log.with_local_retention(state, ms, size))

    def test_less_time_frees_disk_and_makes_replicas_cold(self):
        assert self.footprint().cold == 0
        footprint = self.footprint(ms=HOUR_MS)
        assert (footprint.replicas, footprint.cold, footprint.bytes) == (3, 3, 3 * MIB)
        assert footprint.longest_span_ms == HOUR_MS

    def test_fewer_bytes_shorten_the_span_as_well(self):
        threshold = {"eligible_local_log_bytes": UNKNOWN, "eligible_local_log_ms": 2 * HOUR_MS}
        assert self.footprint(size=2 * MIB, **threshold).cold == 0  # exactly at the threshold
        assert self.footprint(size=2 * MIB - 1, **threshold).cold == 3

    def test_more_than_there_is_changes_nothing_now(self):
        assert self.footprint(ms=8 * HOUR_MS).bytes == 12 * MIB

    def test_who_is_cold_for_good_need_not_be_under_a_longer_retention(self):
        part = Partition(log=Log(local_start=1, started_ms=NOW_MS - 1_000))
        state = a_state(
            part,
            eligible_local_log_ms=2 * HOUR_MS,
            topics={"t": {"remote_storage": 1, "local_retention_ms": HOUR_MS}},
        )
        longer = local_log.with_local_retention(state, 3 * HOUR_MS, UNKNOWN)
        footprints = [local_log.local_footprint(each) for each in (state, longer)]
        assert [one.cold for one in footprints] == [3, 3]
        assert [one.cold_for_good for one in footprints] == [3, 0]

    def test_what_is_not_uploaded_frees_no_disk(self):
        def left(**uploads: int) -> int:
            log = replace(self.HELD, end=1_001, **uploads)
            state = a_state(Partition(log=log), topics=TIERED)
            return local_log.local_footprint(
                local_log.with_local_retention(state, HOUR_MS, UNKNOWN)
            ).bytes

        assert left(last_tiered=1_000) == 3 * MIB
        assert left(last_tiered=500) == 6 * MIB  # half of it waits
        assert left(reason=PendingUpload.KNOWN, pending_upload=0) == 12 * MIB

    def test_only_tiered_topics_keep_less(self):
        state = a_state(Partition(log=self.HELD))
        changed = local_log.with_local_retention(state, HOUR_MS, UNKNOWN)
        assert (
            changed[Replicas].local_log_bytes.tolist() == state[Replicas].local_log_bytes.tolist()
        )
        assert local_log.local_footprint(changed).replicas == 0

    def test_how_far_a_log_can_reach_back_depends_on_how_fast_it_grows(self):
        def after(seconds: int, end: int, since: ShardState | None = None) -> ShardState:
            part = Partition(log=Log(end=end, size_bytes=end * 1_000))
            return a_state(part, at_ms=NOW_MS + seconds * 1_000, since=since, topics=TIERED)

        grows = after(10, 200, after(0, 100))  # 10 records of 1 kB a second
        limited = local_log.with_local_retention(grows, UNKNOWN, 600_000)
        assert local_log.longest_span_ms(limited).tolist() == [60_000]
        both = local_log.with_local_retention(grows, 5_000, 600_000)
        assert local_log.longest_span_ms(both).tolist() == [5_000]

    @pytest.mark.parametrize(("size", "span"), [(UNKNOWN, np.inf), (MIB, np.nan)])
    def test_a_span_has_no_limit_or_is_unknown(self, size, span):
        state = a_state(Partition(), topics=TIERED)  # one cycle gives no rate
        changed = local_log.with_local_retention(state, UNKNOWN, size)
        np.testing.assert_equal(local_log.longest_span_ms(changed), [span])

    def test_a_span_whose_limits_nobody_could_read_is_unknown(self):
        state = a_state(Partition(), topics={"t": {"remote_storage": 1}})
        assert np.isnan(local_log.longest_span_ms(state)).tolist() == [True]
        bounded = local_log.with_local_retention(state, HOUR_MS, UNKNOWN)
        assert local_log.longest_span_ms(bounded).tolist() == [HOUR_MS]  # at most

    def test_shards_add_up(self):
        one = self.footprint(ms=HOUR_MS)
        none = local_log.local_footprint(empty())
        assert none + one + one == replace(
            one, replicas=6, cold=6, bytes=6 * MIB, cold_for_good=2 * one.cold_for_good
        )
