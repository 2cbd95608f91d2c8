"""What the report says of scripted incidents: every cause, none that is not there, right counts.

Each incident is done to a simulated shard. What really happened is counted by the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from streaming.bus.view import ClusterView
from streaming.history.capsules.saving import Recorded
from streaming.history.report.causes import ROOTS, TABLE, links
from streaming.history.report.happenings import read
from streaming.history.report.incidents import told
from streaming.history.report.making import report_of
from streaming.history.report.model import Report
from streaming.plans.events import judged
from streaming.questions.gate.restart import Verdict, judge
from tests.history.recorded import INTERVAL_MS, RecordedPast, at, message, with_events
from tests.simulator.incidents import IncidentShard
from tests.simulator.shard import Shape
from twin.builtin import CATALOG
from twin.proposals import PROPOSALS
from twin.questions.gate import Terms

SHAPE = Shape(topics=2, partitions=3, brokers=6, cold_share=0.0)
READ = Shape(topics=2, partitions=3, brokers=6, cold_share=0.0, groups=2, behind_every=1)

SEED = 12
"""Each of the six brokers leads one partition."""

Done = Callable[[IncidentShard], object]


@dataclass(frozen=True)
class Incident:
    """What is done before which cycle, and what a report must say of it."""

    does: Mapping[int, Done]
    causes: tuple[str, ...] = ()  # beginnings of the texts of causes, in order
    no_cause: frozenset[str] = frozenset()  # kinds of which no cause is to be found
    effects: frozenset[str] = frozenset()  # kinds that must follow from some cause
    shape: Shape = SHAPE
    cycles: int = 9
    missing: frozenset[int] = field(default_factory=frozenset)


def lose(*brokers: int) -> Done:
    return lambda shard: shard.lose_all(*brokers)


def restore(broker: int) -> Done:
    return lambda shard: shard.restore(broker)


def lead_with_an_unclean_election(shard: IncidentShard) -> None:
    """The first partition, which nobody leads."""
    assert shard._truth.leader[0] == -1
    shard.elect_unclean(0)


def lose_leader_of_cold(shard: IncidentShard) -> None:
    """The next replica of the first partition is cold, and leads."""
    shard.lose_all(int(shard._truth.broker[0, 0]))


def make_next_cold(shard: IncidentShard) -> None:
    shard.make_cold(int(shard._truth.broker[0, 1]))


def lose_all_replicas_of_first(shard: IncidentShard) -> None:
    shard.lose_all(*shard._truth.broker[0].tolist())


def lose_slot(slot: int) -> Done:
    """The broker of a replica of the first partition."""
    return lambda shard: shard.lose_all(int(shard._truth.broker[0, slot]))


def return_of_slot(slot: int) -> Done:
    """Its broker is back, and its replicas are out of sync."""

    def back(shard: IncidentShard) -> None:
        broker = int(shard._truth.broker[0, slot])
        shard.alive[broker] = shard.answers[broker] = True

    return back


def shrink_elsewhere(shard: IncidentShard) -> None:
    """A follower that has nothing to do with broker 2 leaves an ISR."""
    row = next(r for r in range(6) if 2 not in shard._truth.broker[r])
    shard.shrink(row, 2)


INCIDENTS: dict[str, Incident] = {
    "nothing": Incident({}),
    "nothing but consumers": Incident({}, shape=READ),
    "a broker is lost": Incident(
        {3: lose(2)}, ("broker 2 was lost",),
        effects=frozenset({"leader_moved", "isr_shrank", "risk_opened/at_min_isr"}),
    ),
    "a broker is lost and comes back": Incident(
        {3: lose(2), 6: restore(2)}, ("broker 2 was lost", "broker 2 is back"),
        effects=frozenset({"leader_moved", "isr_shrank", "isr_expanded"}),
    ),
    "two brokers are lost at once": Incident(
        {3: lose(2, 3)}, ("brokers 2, 3 were lost",), effects=frozenset({"leader_moved"}),
    ),
    "two brokers are lost one after the other": Incident(
        {3: lose(2), 5: lose(4)}, ("broker 2 was lost", "broker 4 was lost"),
    ),
    "a rack is lost": Incident({3: lose(1, 4)}, ("rack az-a was lost: brokers 1, 4",)),
    "three brokers are lost, and partitions have no leader": Incident(
        {3: lose_all_replicas_of_first}, ("brokers ",),
        effects=frozenset({"leader_moved", "risk_opened/partition_offline"}),
    ),
    "a rolling restart": Incident(
        {2: lose(1), 4: restore(1), 6: lose(2), 8: restore(2), 10: lose(3), 12: restore(3)},
        ("broker 1 was lost", "broker 1 is back", "broker 2 was lost", "broker 2 is back",
         "broker 3 was lost", "broker 3 is back"),
        cycles=14,
    ),
    "a broker is silent, and lives": Incident(
        {3: lambda shard: shard.silence(2)}, ("broker 2 does not answer, and was not fenced",),
    ),
    "min.insync.replicas is raised": Incident(
        {3: lambda shard: shard.require(3)}, ("settings of the cluster and 2 topics",),
    ),
    "min.insync.replicas is raised too far": Incident(
        {2: lose(2), 4: lambda shard: shard.require(3)},
        ("broker 2 was lost", "settings of the cluster and 2 topics changed"),
        effects=frozenset({"risk_opened/under_min_isr"}),
    ),
    "a partition is reassigned": Incident(
        {3: lambda shard: shard.reassign(0, 2, 1 + shard._truth.broker[0, 2] % 6)},
        ("topic-0-0-0 is assigned to",),
        effects=frozenset({"isr_expanded"}),
    ),
    "a cold leader is elected": Incident(
        {1: make_next_cold, 5: lose_leader_of_cold},
        ("broker ",), no_cause=frozenset({"replica_cold", "risk_opened/next_leader_cold"}),
        effects=frozenset({"leader_moved", "risk_opened/leader_cold"}), cycles=12,
    ),
    "a cold leader is elected, and consumers read remotely": Incident(
        {1: make_next_cold, 5: lose_leader_of_cold, 6: lambda shard: setattr(
            shard, "remote_rates", dict.fromkeys(range(1, 7), 0.0)),
         7: lambda shard: setattr(shard, "remote_rates", {
             b: 5e6 * (b == shard._truth.leader[0]) for b in range(1, 7)})},
        ("broker ",), no_cause=frozenset({"replica_cold", "risk_opened/next_leader_cold"}),
        effects=frozenset({"leader_moved", "risk_opened/leader_cold", "remote_reads_began"}),
        cycles=12,
    ),
    "somebody holds an unclean election": Incident(
        {2: lose_slot(0), 3: lose_slot(1), 4: lose_slot(2), 5: return_of_slot(0),
         6: lead_with_an_unclean_election},
        ("was lost", "was lost", "was lost", "is back", "unclean election"),
        effects=frozenset({"leader_moved"}), cycles=12,
    ),
    "unclean elections are allowed, and one is held": Incident(
        {1: lose_slot(0), 2: lose_slot(1), 3: lose_slot(2), 4: return_of_slot(0),
         6: lambda shard: (shard.allow_unclean(), lead_with_an_unclean_election(shard))},
        ("was lost", "was lost", "was lost", "is back", "changed: unclean_leader_election"),
        effects=frozenset({"leader_moved"}), cycles=12,
    ),
    "a leader has a shorter log": Incident(
        {4: lambda shard: shard.cut_log(0, 0, 50_000)},
        no_cause=frozenset({"records_lost", "replica_cold"}), cycles=9,
    ),
    "a disk fails": Incident(
        {3: lambda shard: shard.fail_disk(2)}, ("a log directory of broker 2 failed",),
        effects=frozenset({"leader_moved", "isr_shrank"}),
    ),
    "groups cannot read": Incident(
        {3: lose_all_replicas_of_first}, ("brokers ",), shape=READ,
        effects=frozenset({"leader_moved", "group_hurt"}),
    ),
    "a topic is created": Incident(
        {3: lambda shard: shard.create_topic("newer")}, ("3 partitions were created",),
    ),
    "a topic is deleted": Incident(
        {3: lambda shard: shard.delete_topic("topic-0-1")}, ("3 partitions were deleted",),
    ),
    "a preferred replica is elected": Incident(
        {3: lambda shard: shard.move_leader(0, 1)}, no_cause=frozenset({"leader_moved"}),
    ),
    "a follower falls behind": Incident(
        {3: lambda shard: shard.shrink(0, 1)},
        no_cause=frozenset({"isr_shrank"}),
    ),
    "a follower falls behind in the cycle in which another broker is lost": Incident(
        {3: lambda shard: (shard.lose_all(2), shrink_elsewhere(shard))}, ("broker 2 was lost",),
        no_cause=frozenset({"isr_shrank"}),
    ),
    "a broker is lost while nothing is recorded": Incident(
        {4: lose(2)}, ("broker 2 was lost",), missing=frozenset({4, 5, 6}), cycles=10,
    ),
    "all brokers are lost, and come back": Incident(
        {3: lose(1, 2, 3, 4, 5, 6),
         5: lambda shard: [shard.restore(broker) for broker in range(1, 7)]},
        ("brokers 1, 2, 3, 4, 5, 6 were lost", "brokers 1, 2, 3, 4, 5, 6 are back"),
    ),
}  # fmt: skip


def happened(incident: Incident) -> tuple[IncidentShard, Report]:
    """What was done, and the report of all of it."""
    shard = IncidentShard(incident.shape, SEED)
    messages = []
    for cycle in range(incident.cycles):
        shard.traffic(INTERVAL_MS)
        if cycle in incident.does:
            incident.does[cycle](shard)
        frames = shard.observe(at(cycle))
        if cycle not in incident.missing:
            messages.append((0, message(frames)))
    recorded = with_events(Recorded("sim", 1, messages, [], tuple(PROPOSALS)))
    past = RecordedPast(recorded)
    return shard, report_of(past, CATALOG, "sim", at(0), at(incident.cycles - 1))


@pytest.mark.parametrize("name", INCIDENTS)
def test_the_report_names_each_cause_and_invents_none(name: str):
    incident = INCIDENTS[name]
    shard, report = happened(incident)
    said = [each.cause.text for each in report.incidents]
    assert len(said) == len(incident.causes), said
    for text, expected in zip(said, incident.causes, strict=True):
        assert expected in text
    followed = {effect.line.kind for each in report.incidents for effect in each.effects}
    assert incident.effects <= followed
    without = {line.kind for line in report.no_cause}
    assert {kind for kind in without if not kind.startswith("risk_opened/")} == {
        kind for kind in incident.no_cause if not kind.startswith("risk_opened/")
    }
    count_again(incident, shard, report)


def count_again(incident: Incident, shard: IncidentShard, report: Report) -> None:
    """The numbers of the report against the truth; a cycle stands for the time until the next."""
    kept = [n for n in range(incident.cycles) if n not in incident.missing]
    seconds = {
        n: 5 if following - n > 2 else 5 * (following - n) for n, following in pairwise(kept)
    }
    truth, blast = shard.truth, report.blast_radius
    assert report.cycles == len(kept)
    assert blast.observed_s == sum(seconds.values())
    assert blast.not_observed_s == 5 * (incident.cycles - 1) - sum(seconds.values())
    assert blast.offline_partition_s == sum(truth.offline[n] * s for n, s in seconds.items())
    under = sum(truth.under_min_isr[n] * s for n, s in seconds.items())
    assert blast.under_min_isr_partition_s == under
    remote = sum(truth.remote_bytes_per_s[n] * s for n, s in seconds.items())
    assert blast.remote_reads.read_bytes == (remote if shard.remote_rates else None)
    assert (blast.groups_hurt is None) == (not incident.shape.groups)
    assert report.series.offline == [truth.offline[n] for n in kept]
    assert report.after.offline == truth.offline[-1]
    assert len(report.not_known) > (1 if incident.missing else 0)


def test_records_that_are_lost_are_counted_once_and_as_a_lower_bound():
    cut = 50_000
    _, report = happened(Incident({4: lambda shard: shard.cut_log(0, 0, cut)}, cycles=12))
    lost = report.blast_radius.records_lost
    written = 5_000 // 10 * 2  # in the cycle before and after, at 100 records a second
    assert lost.elections == 1
    assert lost.records is not None
    assert cut - 2 * written < lost.records <= cut
    assert lost.is_lower_bound
    assert report.worst is not None
    assert report.worst.risks["records_lost"] == 1


def test_what_was_foretold_had_stood_since_the_span_began():
    _, report = happened(INCIDENTS["a broker is lost"])
    foretold = report.foretold
    assert (foretold.losses, foretold.right) == (1, 1)
    [leader] = foretold.leaders
    assert (leader.lost, leader.result, leader.stood_longer) == (2, "right", True)
    assert leader.elected == leader.predicted
    assert leader.stood_s == foretold.shortest_s == 15


def test_another_election_rule_is_judged_at_the_loss_that_elected_a_cold_leader():
    _, report = happened(INCIDENTS["a cold leader is elected"])
    rules = {each.rule: each for each in report.other_rules}
    assert rules["kip1303"].judged == 1
    assert (rules["kip1303"].other_leader, rules["kip1303"].warm_for_cold) == (1, 1)
    assert rules["kip501"].other_leader == 0


def test_a_risk_that_was_gone_before_its_alert_fired_is_named_and_one_that_pages_at_once_is_not():
    restart = Incident({2: lose(2), 4: restore(2)}, cycles=12)
    _, report = happened(restart)
    quiet = {each.risk: each for each in report.unalerted}
    assert quiet["at_min_isr"].is_over
    assert quiet["at_min_isr"].lasted_s < 300
    assert "5m" in quiet["at_min_isr"].why
    _, worse = happened(INCIDENTS["three brokers are lost, and partitions have no leader"])
    assert "partition_offline" not in {each.risk for each in worse.unalerted}


def test_what_people_changed_is_listed_and_what_brokers_did_is_not():
    _, report = happened(INCIDENTS["min.insync.replicas is raised too far"])
    assert [each.kind for each in report.people] == ["settings_changed"]
    _, other = happened(INCIDENTS["a broker is lost"])
    assert other.people == []
    assert any("gate.record" in text for text in other.not_known)


def test_what_the_gate_was_asked_is_what_people_did_and_no_cause():
    events = [
        judged("c", verdict(broker, said), at_ms)[1]
        for broker, said, at_ms in ((3, "unsafe", 5_000), (4, "unsafe", 9_000), (3, "safe", 12_000))
    ]
    found = read(events, 0, 60_000).happenings
    known = told(found, links(found, 5_000), {})
    assert [line.text for line in known.people] == [
        "somebody asked whether brokers 3, 4 may be restarted: unsafe",
        "somebody asked whether broker 3 may be restarted: safe",
    ]
    assert (known.incidents, known.no_cause) == ([], [])


def verdict(broker: int, said: Verdict) -> dict[str, Any]:
    answer = judge(ClusterView(), (), Terms(), 0).data()
    return {**answer, "brokers": [broker], "verdict": said, "stale": None, "reasons": []}


def test_the_same_cycle_is_certain_and_a_later_one_inferred():
    _, report = happened(INCIDENTS["a cold leader is elected, and consumers read remotely"])
    [incident] = report.incidents
    certain = {e.line.kind: e.certainty for e in incident.effects}
    assert certain["leader_moved"] == "certain"
    assert certain["risk_opened/leader_cold"] == "certain"
    assert certain["remote_reads_began"] == "inferred"
    moments = [each.line.at_ms for each in incident.effects if each.depth == 1]
    assert moments == sorted(moments)


def test_no_kind_follows_from_itself():
    after: dict[str, set[str]] = {}
    for each in TABLE:
        after.setdefault(each.effect, set()).add(each.cause)

    def causes(kind: str, path: tuple[str, ...]) -> None:
        assert kind not in path, path
        for cause in after.get(kind, ()):
            causes(cause, (*path, kind))

    for kind in after:
        causes(kind, ())
    assert {*ROOTS} & {each.cause for each in TABLE}
