"""Day one on a cluster of somebody else: what is at risk there, and a roll through the gate."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.cluster.broker_client import Key
from tests.soak.background import Background
from tests.strangers import groups
from tests.strangers.kinds import INTERNAL, KINDS, LATE, expected, kind, kind_of
from tests.strangers.setup import Say, Stranger, strangers, twin_of

MINUTES: Final = 5.0
LATE_AFTER_S: Final = 60.0
CLOSED_WITHIN_S: Final = 120.0
RESTART_WITHIN: Final = "5m"

ALLOWED: Final = ("--allow-rf1", "--allow-rf-min-isr")
"""What an operator accepts who has such topics: they go with their broker, or refuse writes."""

Risks = frozenset[tuple[Key, str]]


@dataclass
class Day:
    """What was seen."""

    partitions: dict[str, int] = field(default_factory=dict)  # by kind
    risks: Risks = frozenset()
    planted: Risks = frozenset()  # by the test
    internal_topics: int = 0
    groups: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # commands that did not exit with 0
    restarted: list[int] = field(default_factory=list)
    during_restarts: Counter[tuple[str, str]] = field(default_factory=Counter)  # kind and risk
    unexplained: list[str] = field(default_factory=list)
    after_restarts: Risks = frozenset()
    lost: dict[Key, int] = field(default_factory=dict)  # acknowledged records
    errors: list[str] = field(default_factory=list)  # of the producer
    written: int = 0
    read: int = 0

    def table(self) -> dict[str, Counter[str]]:
        """Partitions with each open risk, by kind of topic."""
        counts: dict[str, Counter[str]] = {name: Counter() for name in self.partitions}
        for key, risk in self.risks:
            counts[kind_of(key[0])][risk] += 1
        return counts


def day_one(home: Path, say: Say) -> Day:
    """Play it: five minutes, a plan, and a restart of each broker.

    Raises:
        ScriptFailed: the cluster or the twin does not get ready.
    """
    day = Day()
    with ExitStack() as stack:
        stranger = stack.enter_context(strangers(home, say))
        for each in KINDS:
            if each.name != "new":
                stranger.create_all(each)
        say(f"{len(stranger.topics)} topics, {sum(stranger.topics.values())} partitions")
        stack.enter_context(twin_of(stranger))
        began_s = time.monotonic()
        with groups.life(stranger) as life:
            stranger.pause(LATE_AFTER_S)
            _come_late(stranger)
            stranger.pause(MINUTES * 60 - (time.monotonic() - began_s))
            _look(stranger, day)
            _ask(stranger, day)
            for broker in stranger.cluster.layout.ids:
                _restart(stranger, day, broker)
            day.after_restarts = _settled(stranger, day.planted)
            day.read = life.read
        day.written = sum(map(len, life.writer.acknowledged.values()))
        day.errors, day.lost = life.writer.errors, life.writer.lost()
    return day


def _come_late(stranger: Stranger) -> None:
    """A topic is made, and another one is deleted and made anew."""
    new, anew = (kind(name) for name in reversed(LATE))
    stranger.say("a topic is made, another one is made anew")
    with stranger.admin() as admin:
        admin.delete_topics(anew.names(), timeout_ms=20_000)
        stranger.until(
            lambda: not set(anew.names()) & set(admin.list_topics()), 60, "a topic is not deleted"
        )
    stranger.create_all(anew)
    stranger.create_all(new)


def _look(stranger: Stranger, day: Day) -> None:
    """The open risks, once none of those that the test put there is missing."""
    partitions = stranger.until(stranger.partitions, 60, "the API does not answer")
    day.partitions = dict(Counter(kind_of(topic) for topic, _ in partitions))
    day.internal_topics = len({topic for topic, _ in partitions if kind_of(topic) == INTERNAL})
    day.planted = frozenset(
        (key, risk) for key, risks in expected(list(partitions)).items() for risk in risks
    )
    day.risks = _settled(stranger, day.planted)
    day.groups = sorted(each["group"] for each in stranger.get("groups?limit=1000")["groups"])


def _settled(stranger: Stranger, planted: Risks) -> Risks:
    """The open risks once they are those, or after the longest time for which a risk stays open."""
    deadline_s = time.monotonic() + CLOSED_WITHIN_S
    while (risks := open_risks(stranger)) != planted and time.monotonic() < deadline_s:
        stranger.pause(2)
    return risks


def open_risks(stranger: Stranger) -> Risks:
    """All open risks in the API."""
    return frozenset((key, risk) for key, p in stranger.partitions().items() for risk in p["risks"])


def _ask(stranger: Stranger, day: Day) -> None:
    """What a careful operator asks before a roll."""
    for broker in stranger.cluster.layout.ids:
        _called(stranger, day, "gate", "restart", "--broker", str(broker), *ALLOWED)
    _called(stranger, day, "plan", "roll", *ALLOWED)


def _called(stranger: Stranger, day: Day, *command: str) -> None:
    done = stranger.call(*command)
    stranger.say(f"{' '.join(command)}: exit code {done.returncode}")
    if done.returncode:
        day.refused[" ".join(command)] = done.stdout + done.stderr


def _restart(stranger: Stranger, day: Day, broker: int) -> None:
    """Restart a broker once the gate is open, and wait until all is in sync again."""
    _called(stranger, day, "gate", "restart", "--broker", str(broker), *ALLOWED,
            "--wait", RESTART_WITHIN)  # fmt: skip
    day.restarted.append(broker)
    with NewRisks(stranger=stranger, day=day):
        stranger.cluster.term(broker)
        stranger.cluster.start([broker])
        _called(stranger, day, "gate", "in-sync", "--since", "now", "--wait", RESTART_WITHIN)


@dataclass(kw_only=True)
class NewRisks(Background):
    """Notes the risks that open while a broker is restarted, and those that nothing explains."""

    stranger: Stranger
    day: Day

    def run(self) -> None:
        seen: set[tuple[Key, str]] = set(self.day.planted)
        while not self.over.wait(1):
            for key, partition in self.stranger.partitions("&at_risk=true").items():
                brokers = [replica["broker"] for replica in partition["replicas"]]
                for risk in partition["risks"]:
                    if (key, risk) in seen:
                        continue
                    seen.add((key, risk))
                    self.day.during_restarts[kind_of(key[0]), risk] += 1
                    late = [r["broker"] for r in partition["replicas"] if r["isr_shrink_near"]]
                    if not explains(self.day.restarted, kind_of(key[0]), brokers, risk, late):
                        text = f"{key[0][:40]}-{key[1]} on {brokers}: {risk}"
                        self.day.unexplained.append(f"{self.day.restarted[-1]} restarts: {text}")


def explains(
    restarted: list[int], kind: str, brokers: list[int], risk: str, late: Sequence[int] = ()
) -> bool:
    """A broker that is out, or came back a moment ago, is why a partition has that risk.

    Args:
        restarted: brokers that were restarted so far; the last one may be out.
        kind: of the partition's topic.
        brokers: its replicas.
        risk: that is open, and was not before.
        late: brokers whose replicas are about to leave the ISR.
    """
    if not set(restarted) & set(brokers):
        return False
    if risk == "partition_offline":
        return len(brokers) == 1
    if risk == "under_min_isr":
        return kind == "two replicas min ISR 2"
    if risk == "no_clean_successor":
        return len(brokers) == 2
    if risk == "at_min_isr":
        return len(brokers) > 2
    # A busy controller takes a stopped follower out of the ISR late, and until then it is late.
    return risk == "isr_shrink_near" and set(late) <= {restarted[-1]} <= set(brokers)
