"""The kinds of topics of an ordinary cluster, and the risks that each of them has on day one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.cluster.broker_client import Key

BROKERS: Final = 5
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
LONGEST_NAME: Final = 249
"""Kafka's own limit (Topic.MAX_NAME_LENGTH)."""

PARTITIONS: Final = (1, 2, 3, 1, 6, 4, 1, 12, 2, 3, 1, 5, 2, 1)
"""Numbers of partitions that the topics of a kind have in turn."""

_SEGMENTS: Final = {"internal.segment.bytes": "16384", "file.delete.delay.ms": "100"}
_TIERED: Final = {"remote.storage.enable": "true", **_SEGMENTS}


@dataclass(frozen=True)
class Kind:
    """Topics that are alike."""

    name: str
    topics: int
    replicas: int
    means: str  # after a run, the sentence of docs/day-one.md
    configs: Mapping[str, str] = field(default_factory=dict)
    records: int = 30  # of each partition, at first
    oldest_ms: int = 0  # age of the first record; records are spread from there until now
    is_written: bool = False  # all the time
    risks: frozenset[str] = frozenset()
    partitions: int = 0  # of each topic; 0: PARTITIONS in turn

    def names(self) -> list[str]:
        """The names of its topics."""
        if self.name == "longest name":
            return ["longest." + "n" * (LONGEST_NAME - len("longest."))]
        return [f"{self.name.replace(' ', '-')}-{number:02}" for number in range(self.topics)]

    def partitions_of(self, number: int) -> int:
        """The partitions of its topic of that number."""
        return self.partitions or PARTITIONS[number % len(PARTITIONS)]


MIN_2: Final = {"min.insync.replicas": "2"}

KINDS: Final = (
    Kind("idle", 14, 3, "written once, and quiet since"),
    Kind("written", 12, 3, "written all the time", is_written=True),
    Kind("never written", 14, 3, "no record yet", records=0),
    Kind("compacted", 9, 3, "cleanup.policy=compact, min ISR 2",
         {"cleanup.policy": "compact", **MIN_2}, is_written=True),
    Kind("short retention", 8, 3, "retention.ms of half a minute: mostly empty",
         {"retention.ms": "30000", **_SEGMENTS}),
    Kind("one replica", 9, 1, "goes with its broker, whatever anybody does"),
    Kind("one replica min ISR 2", 3, 1, "the same; acks=all is taken, as one replica is all",
         MIN_2),
    Kind("two replicas min ISR 2", 10, 2, "no replica can be spared, and none is missing", MIN_2),
    Kind("three replicas min ISR 2", 14, 3, "what Kafka recommends", MIN_2, is_written=True),
    Kind("tiered nothing uploaded", 6, 3, "all records are in the active segment", _TIERED,
         records=5),
    Kind("tiered warm", 6, 3, "an hour of records is on disk, older ones are in remote storage",
         _TIERED | {"local.retention.bytes": "100000"}, records=200, oldest_ms=3 * HOUR_MS),
    Kind("tiered cold", 2, 3, "local.retention.ms of a minute: below the threshold for ever",
         _TIERED | {"local.retention.ms": "60000"}, is_written=True, partitions=2, records=200,
         risks=frozenset({"leader_cold", "next_leader_cold", "eligibility_unreachable"})),
    Kind("dated in the past", 4, 3, "its producers write old timestamps",
         {"retention.ms": "-1"}, oldest_ms=400 * DAY_MS),
    Kind("dated in the future", 2, 3, "its producers write timestamps of tomorrow",
         {"message.timestamp.after.max.ms": str(10 * DAY_MS)}, oldest_ms=-DAY_MS),
    Kind("tiered dated in the future", 1, 3, "the same, and its old records are in remote storage",
         _TIERED | {"message.timestamp.after.max.ms": str(10 * DAY_MS),
                    "local.retention.bytes": "100000"},
         records=200, oldest_ms=-DAY_MS, partitions=2),
    Kind("longest name", 1, 3, "249 characters"),
    Kind("open transaction", 1, 3, "a producer began a transaction and never ends it", MIN_2,
         partitions=1, risks=frozenset({"transaction_open"})),
    Kind("read from remote storage", 1, 3, "a live group is far behind", partitions=2,
         configs=_TIERED | {"local.retention.bytes": "100000"}, records=200,
         oldest_ms=3 * HOUR_MS, risks=frozenset({"consumer_reads_remote"})),
    Kind("read too late", 1, 3, "a live group is behind what retention has deleted", partitions=2,
         configs={"retention.ms": "30000", **_SEGMENTS}, is_written=True,
         risks=frozenset({"consumer_loses_records"})),
    Kind("made anew", 1, 3, "deleted and made again under its name while the twin runs"),
    Kind("new", 1, 3, "made while the twin runs"),
)  # fmt: skip
"""120 topics. Risks are of every partition of the kind."""

LATE: Final = ("made anew", "new")
INTERNAL: Final = "internal"


def kind_of(topic: str, kinds: Iterable[Kind] = KINDS) -> str:
    """The kind of a topic, by its name; those of Kafka and of the twin are internal."""
    if topic.startswith("longest."):
        return "longest name"
    stem = topic.rsplit("-", 1)[0].replace("-", " ")
    return stem if stem in {kind.name for kind in kinds} else INTERNAL


def kind(name: str) -> Kind:
    """The kind of that name."""
    return next(each for each in KINDS if each.name == name)


def assignment(kind: Kind, number: int) -> list[list[int]]:
    """The brokers of each partition of a topic, spread as Kafka does: [partitions][replicas]."""
    count, first = kind.partitions_of(number), number
    return [
        [(first + p + slot * (1 + p // BROKERS % 2)) % BROKERS + 1 for slot in range(kind.replicas)]
        for p in range(count)
    ]


def expected(topics: Mapping[str, int] | Sequence[Key]) -> dict[Key, frozenset[str]]:
    """The open risks of each partition on day one."""
    places = (
        [(topic, n) for topic, count in topics.items() for n in range(count)]
        if isinstance(topics, Mapping)
        else topics
    )
    by_kind = {each.name: each.risks for each in KINDS}
    return {key: by_kind.get(kind_of(key[0]), frozenset()) for key in places}
