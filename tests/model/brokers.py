"""Brokers, logs and a controller in plain Python, one partition at a time: what Kafka would do.

A log is a list with the leader epoch of each record. An epoch has one leader, so a record is known
by its offset and its epoch: two logs have the same record where both have the same epoch, and a
follower truncates its log to the first offset where they differ (KIP-101, KIP-279). The controller
elects as KIP-966 says: a member of the ISR; without one a member of the ELR; without both the last
known leader; and any live replica if the topic allows unclean elections.

Nothing of ``twin`` is imported here, and nothing is fast.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from random import Random

BROKERS = (1, 2, 3, 4, 5)
NOBODY = -1

Log = list[int]


def common(one: Log, other: Log) -> int:
    """The first offset at which the two logs differ, or at which one of them ends."""
    for offset, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return offset
    return min(len(one), len(other))


@dataclass
class PlainPartition:
    """One partition, as the controller and the disks have it."""

    number: int
    replicas: list[int]
    unclean: bool
    min_isr: int
    isr: list[int]
    leader: int
    elr: list[int] = field(default_factory=list)
    last_known: list[int] = field(default_factory=list)
    epoch: int = 1
    logs: dict[int, Log] = field(default_factory=dict)
    committed: int = 0  # by a group of consumers, which reads up to the high watermark
    high_watermark: int = 0
    committed_up_to: dict[int, int] = field(default_factory=dict)  # by leader epoch
    last_leader: int = NOBODY
    story: list[str] = field(default_factory=list)

    @property
    def topic(self) -> str:
        return f"unclean{int(self.unclean)}-min{self.min_isr}"

    def tell(self, what: str) -> None:
        self.story.append(what)


def elected(
    partition: PlainPartition, isr: Collection[int], elr: Collection[int], live: Collection[int]
) -> tuple[int, str]:
    """Who leads, and how safe that is, if nobody leads now: in the order of the assignment."""
    candidates = [b for b in partition.replicas if b in live]
    tries: list[tuple[str, list[int]]] = [("clean", [b for b in candidates if b in isr])]
    if not isr:
        tries.append(("elr", [b for b in candidates if b in elr]))
    if not isr and not elr and len(partition.last_known) == 1:
        tries.append(("last_known", [b for b in candidates if b in partition.last_known]))
    if partition.unclean:
        tries.append(("unclean", candidates))
    for outcome, able in tries:
        if able:
            return able[0], outcome
    return NOBODY, "none"


def elr_after(partition: PlainPartition, isr: Collection[int], *, enabled: bool) -> list[int]:
    """Below min.insync.replicas, who leaves the ISR stays eligible (KIP-966)."""
    if not enabled or len(isr) >= partition.min_isr:
        return []
    eligible = {*partition.elr, *partition.isr}
    return [b for b in partition.replicas if b in eligible and b not in isr]


class PlainCluster:
    """Five brokers that die, hang, return and lose disks, and what becomes of the partitions."""

    def __init__(self, random: Random, partitions: int) -> None:
        self.random = random
        self.elr_enabled = random.random() < 0.5
        self.up = set(BROKERS)
        self.fenced: set[int] = set()
        self.partitions = [self._partition(n) for n in range(partitions)]

    def _partition(self, number: int) -> PlainPartition:
        replicas = self.random.sample(BROKERS, self.random.choice((1, 2, 3, 3, 3)))
        end = self.random.randrange(20)
        return PlainPartition(
            number=number,
            replicas=replicas,
            unclean=self.random.random() < 0.5,
            min_isr=self.random.choice((1, 2)),
            isr=list(replicas),
            leader=replicas[0],
            last_leader=replicas[0],
            logs={b: [1] * end for b in replicas},
            committed=self.random.randint(0, end),
            high_watermark=end,
            committed_up_to={1: end},
        )

    @property
    def live(self) -> set[int]:
        """Brokers that the controller takes for alive; some of them may be down."""
        return set(BROKERS) - self.fenced

    # ------------------------------------------------------------ what happens by chance

    def go_on(self) -> None:
        """A few seconds: faults of brokers, and traffic of each partition before and after."""
        for _ in range(self.random.randrange(3)):
            self._traffic()
            self._fault(self.random.choice(BROKERS))
        self._traffic()

    def _fault(self, broker: int) -> None:
        if broker in self.up:
            self.up.discard(broker)
            for p in self.partitions:
                p.tell(f"{broker} stops")
        elif broker not in self.fenced and self.random.random() < 0.6:
            self._fence(broker)
        else:
            self._return(broker)

    def _traffic(self) -> None:
        for partition in self.partitions:
            for _ in range(self.random.randrange(3)):
                if partition.leader in self.up:
                    self._leader_works(partition)

    def _leader_works(self, p: PlainPartition) -> None:
        """One of: it is written, a follower fetches, a follower leaves the ISR, a group commits."""
        leading = p.logs[p.leader]
        what = self.random.choice(("write", "fetch", "fetch", "shrink", "commit"))
        followers = [b for b in p.replicas if b != p.leader and b in self.up]
        if what == "write":
            leading.extend([p.epoch] * self.random.randint(1, 9))
            p.tell(f"{p.leader} is written to {len(leading)}")
        elif what == "commit":
            p.committed = self.random.randint(0, p.high_watermark)
        elif what == "fetch" and followers:
            follower = self.random.choice(followers)
            log = p.logs[follower]
            log.extend(leading[len(log) : len(log) + self.random.randint(1, 12)])
            if len(log) == len(leading) and follower in self.live and follower not in p.isr:
                self._set_isr(p, [*p.isr, follower])
            p.tell(f"{follower} fetches to {len(log)}")
        elif what == "shrink" and [b for b in p.isr if b != p.leader]:
            slow = self.random.choice([b for b in p.isr if b != p.leader])
            self._set_isr(p, [b for b in p.isr if b != slow])
            p.tell(f"{slow} leaves the ISR")
        self._commit(p)

    def _commit(self, p: PlainPartition) -> None:
        """The high watermark follows the ISR; with an ELR it stands still below min ISR."""
        if len(p.isr) >= p.min_isr or not self.elr_enabled:
            lowest = min(len(p.logs[b]) for b in {*p.isr, p.leader})
            p.high_watermark = max(p.high_watermark, lowest)
        p.committed_up_to[p.epoch] = p.high_watermark

    # ------------------------------------------------------------ the controller

    def _fence(self, broker: int) -> None:
        """Its session has expired."""
        self.fenced.add(broker)
        for p in self.partitions:
            if broker not in p.replicas:
                continue
            p.tell(f"{broker} is fenced")
            if broker in p.isr:
                self._leave(p, broker)
            if p.leader in (broker, NOBODY):
                self._elect(p)

    def _return(self, broker: int) -> None:
        """It goes on where it hung, or it registers again, perhaps without some of its records."""
        self.up.add(broker)
        is_new = broker in self.fenced
        self.fenced.discard(broker)
        lost_disk = is_new and self.random.random() < 0.3
        for p in self.partitions:
            if broker not in p.replicas:
                continue
            p.tell(f"{broker} returns")
            if lost_disk:
                log = p.logs[broker]
                kept = self.random.choice((0, max(len(log) - 3, 0)))
                p.tell(f"{broker} has lost its records from {kept} on")
                del log[kept:]
                if self.elr_enabled:  # an unclean shutdown, which the controller notices
                    self._distrust(p, broker)
            if p.leader == NOBODY:
                self._elect(p)
            self._truncate(p)

    def _distrust(self, p: PlainPartition, broker: int) -> None:
        if broker in p.isr:
            p.isr.remove(broker)
        if broker in p.elr:
            p.elr.remove(broker)
        if not p.isr and not p.elr:
            p.last_known = [p.last_leader]

    def _leave(self, p: PlainPartition, broker: int) -> None:
        """Without an ELR the last member of an ISR stays in it."""
        rest = [b for b in p.isr if b != broker]
        if rest or self.elr_enabled:
            self._set_isr(p, rest)
            p.epoch += p.leader != broker and self.random.random() < 0.5

    def _set_isr(self, p: PlainPartition, isr: Iterable[int]) -> None:
        isr = list(isr)
        p.elr = elr_after(p, isr, enabled=self.elr_enabled)
        p.isr = isr

    def _elect(self, p: PlainPartition) -> None:
        leader, outcome = elected(p, p.isr, p.elr, self.live)
        if leader == p.leader:
            return
        p.tell(f"leader {p.leader} -> {leader} ({outcome}), epoch {p.epoch + 1}")
        p.leader, p.epoch = leader, p.epoch + 1
        if leader == NOBODY:
            return
        p.last_leader, p.last_known = leader, []
        p.high_watermark = min(p.high_watermark, len(p.logs[leader]))
        p.committed_up_to[p.epoch] = p.high_watermark
        if outcome == "elr":
            self._set_isr(p, [leader])
        elif outcome != "clean":
            p.isr, p.elr = [leader], []
        self._truncate(p)

    def _truncate(self, p: PlainPartition) -> None:
        """Followers do that before they fetch, as soon as they reach the leader."""
        if p.leader in self.up:
            for b in p.replicas:
                if b != p.leader and b in self.up:
                    del p.logs[b][common(p.logs[b], p.logs[p.leader]) :]
