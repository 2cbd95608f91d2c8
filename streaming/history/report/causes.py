"""What follows from what: one table, and nothing else.

An effect has at most one cause: a happening of a kind that the table names for it, about the same
broker, partition, topic or group, and not longer ago than the table says. It is certain if both are
in the same cycle and the table says that this proves it; else it is inferred, and said to be. What
fits nothing has no cause: none is made up.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from streaming.history.report.happenings import (
    BROKER_BACK,
    BROKER_LOST,
    BROKER_SILENT,
    DISK_FAILED,
    DISK_FULL,
    GROUP_HURT,
    SETTINGS,
    UNCLEAN_BY_HAND,
    Happening,
)
from streaming.history.report.model import Certainty

Match = Literal["left", "joined", "broker", "leader", "partition", "topic", "cluster"]
"""What both name: a broker that ceased, a broker that took over, the broker, the leader of the
partition, the partition, or the topic of the settings; or the cause is one of the cluster."""

_PROVES: Final = True
_MINUTE: Final = 60
_BALANCE_S: Final = 600
"""leader.imbalance.check.interval.seconds is 300 by default: two rounds of leader balancing."""
_EPOCH_S: Final = 30
"""A new leader's epoch is read within 15 s, else the loss is judged without it."""
_OPENS_S: Final = 120
"""Risks of consumers open after 30 s, and brokers are scraped every 15 s."""
_CATCH_UP_S: Final = 3_600
_FILLS_S: Final = 86_400
"""A disk that fills is foretold a day before."""
_STORAGE: Final = "risk_opened/remote_storage_failing"

ROOTS: Final = (
    BROKER_LOST, BROKER_SILENT, BROKER_BACK, DISK_FAILED, SETTINGS, UNCLEAN_BY_HAND,
    "replicas_reordered", "replicas_restored", "reassigned", "partition_created",
    "partition_deleted", DISK_FULL, _STORAGE,
)  # fmt: skip
"""Kinds that are causes themselves, whatever they follow from."""


@dataclass(frozen=True, slots=True)
class Because:
    """An effect that may follow from a cause."""

    effect: str
    cause: str
    match: Match
    within_s: int
    proves: bool = False  # in the same cycle, the effect names what the cause did
    settings: tuple[str, ...] = ()  # any of them must be among those that changed
    judged: tuple[str, ...] = ()  # the twin's own judgement of the election must be one of them


def _risk(name: str) -> str:
    return f"risk_opened/{name}"


_THRESHOLDS: Final = (
    "eligible_local_log_ms", "eligible_local_log_bytes", "remote_storage", "local_retention_ms",
    "local_retention_bytes",
)  # fmt: skip
_LOSS: Final = ("loss",)
_MOVE: Final = ("reassignment", "balance")
_RETURN: Final = ("return", "balance")
_UNCLEAN: Final = ("unclean_leader_election", "unclean_elections")
_MIN_ISR: Final = ("min_insync_replicas",)
_OF_ISR: Final = ("under_min_isr", "at_min_isr", "no_clean_successor")
_OF_LOG: Final = ("leader_cold", "next_leader_cold")
_OF_CONSUMERS: Final = (
    "consumer_reads_remote", "consumer_falls_off_local_log", "consumer_loses_records",
    "consumer_ahead_of_log", "cold_read_replica",
)  # fmt: skip

TABLE: Final[tuple[Because, ...]] = (
    Because("reassigned", "replicas_reordered", "partition", _MINUTE),
    Because("reassigned", "replicas_restored", "partition", _MINUTE),
    Because("leader_moved", UNCLEAN_BY_HAND, "partition", 0, _PROVES),
    Because("leader_moved", BROKER_LOST, "left", _MINUTE, _PROVES, judged=_LOSS),
    Because("leader_moved", DISK_FAILED, "left", _MINUTE, _PROVES, judged=_LOSS),
    Because("leader_moved", "reassigned", "partition", _BALANCE_S, _PROVES, judged=_MOVE),
    Because("leader_moved", SETTINGS, "topic", _MINUTE, settings=_UNCLEAN, judged=_RETURN),
    Because("leader_moved", BROKER_BACK, "joined", _BALANCE_S, judged=_RETURN),
    Because("leader_moved", BROKER_SILENT, "left", _MINUTE, judged=_LOSS),
    Because(_risk("disk_fills"), _STORAGE, "cluster", _FILLS_S),
    Because(_risk("disk_full_soon"), _STORAGE, "cluster", _FILLS_S),
    Because(_risk("upload_lag_vs_local_retention"), _STORAGE, "cluster", _FILLS_S),
    Because(DISK_FULL, _risk("disk_full_soon"), "broker", _FILLS_S),
    Because(DISK_FULL, _STORAGE, "cluster", _FILLS_S),
    Because(DISK_FAILED, DISK_FULL, "broker", _MINUTE),
    Because(_risk("log_dir_failed"), DISK_FULL, "broker", _OPENS_S),
    Because(BROKER_LOST, DISK_FULL, "broker", _OPENS_S),
    Because(BROKER_SILENT, DISK_FULL, "broker", _OPENS_S),
    Because("isr_shrank", BROKER_LOST, "left", _MINUTE, _PROVES),
    Because("isr_shrank", DISK_FAILED, "left", _MINUTE, _PROVES),
    Because("isr_shrank", "reassigned", "partition", _BALANCE_S, _PROVES),
    Because("isr_shrank", BROKER_SILENT, "left", _MINUTE),
    Because("isr_expanded", BROKER_BACK, "joined", _CATCH_UP_S, _PROVES),
    Because("isr_expanded", "reassigned", "partition", _CATCH_UP_S),
    Because("replica_cold", "reassigned", "partition", _OPENS_S),
    Because("replica_cold", SETTINGS, "topic", _OPENS_S, settings=_THRESHOLDS),
    Because("replica_cold", BROKER_BACK, "broker", _OPENS_S),
    Because("replica_cold", "leader_moved", "partition", _OPENS_S),
    Because("records_lost", "leader_moved", "partition", _EPOCH_S, _PROVES),
    Because("records_lost", BROKER_BACK, "broker", _EPOCH_S),
    Because("records_truncated", "leader_moved", "partition", _EPOCH_S, _PROVES),
    Because("unclean_election", UNCLEAN_BY_HAND, "partition", _EPOCH_S, _PROVES),
    Because("unclean_election", "leader_moved", "partition", _EPOCH_S, _PROVES),
    Because("isr_shrink_explained", "isr_shrank", "partition", _MINUTE, _PROVES),
    Because(_risk("partition_offline"), "leader_moved", "partition", 0, _PROVES),
    Because(_risk("records_lost"), "records_lost", "partition", _EPOCH_S, _PROVES),
    Because(_risk("unclean_election"), "unclean_election", "partition", _EPOCH_S, _PROVES),
    Because(_risk("leader_silent"), BROKER_LOST, "leader", _OPENS_S),
    Because(_risk("leader_silent"), BROKER_SILENT, "leader", _OPENS_S),
    *(Because(_risk(each), "isr_shrank", "partition", _MINUTE, _PROVES) for each in _OF_ISR),
    *(Because(_risk(each), "leader_moved", "partition", _MINUTE, _PROVES) for each in _OF_ISR),
    *(Because(_risk(each), "reassigned", "partition", _MINUTE, _PROVES) for each in _OF_ISR),
    *(Because(_risk(each), SETTINGS, "topic", _MINUTE, settings=_MIN_ISR) for each in _OF_ISR),
    Because(_risk("no_clean_successor"), BROKER_SILENT, "left", _MINUTE),
    *(Because(_risk(each), "leader_moved", "partition", _MINUTE, _PROVES) for each in _OF_LOG),
    *(Because(_risk(each), "isr_shrank", "partition", _MINUTE, _PROVES) for each in _OF_LOG),
    *(Because(_risk(each), "replica_cold", "partition", _MINUTE, _PROVES) for each in _OF_LOG),
    *(Because(_risk(each), "reassigned", "partition", _OPENS_S) for each in _OF_LOG),
    *(Because(_risk(each), SETTINGS, "topic", _OPENS_S, settings=_THRESHOLDS) for each in _OF_LOG),
    Because(_risk("isr_thrash"), "isr_shrank", "partition", _BALANCE_S),
    Because(_risk("consumer_ahead_of_log"), "records_lost", "partition", _OPENS_S),
    Because(_risk("consumer_ahead_of_log"), "partition_created", "partition", _OPENS_S),
    Because(_risk("consumer_skips_records"), "group_skips_records", "partition", _OPENS_S, _PROVES),
    Because("group_skips_records", "partition_created", "partition", _BALANCE_S),
    *(Because(_risk(e), _risk("leader_cold"), "partition", _OPENS_S) for e in _OF_CONSUMERS),
    *(Because(_risk(each), "leader_moved", "partition", _OPENS_S) for each in _OF_CONSUMERS),
    Because(_risk("bootstrap_stuck"), "reassigned", "partition", _CATCH_UP_S),
    Because(_risk("bootstrap_late"), "reassigned", "partition", _CATCH_UP_S),
    Because("remote_reads_began", _risk("leader_cold"), "leader", _OPENS_S),
    Because(GROUP_HURT, _risk("partition_offline"), "partition", 0, _PROVES),
    Because(GROUP_HURT, _risk("leader_cold"), "partition", _OPENS_S),
    Because(GROUP_HURT, "records_lost", "partition", _OPENS_S),
    Because(GROUP_HURT, "leader_moved", "partition", _OPENS_S),
)
"""In the order in which they are preferred, if several fit and none of them is certain."""

NOT_TOLD: Final = ("risk_closed/", "prediction_judged", "replica_warm", "remote_reads_ended",
                   "load_above_capacity_ended", "restart_judged")  # fmt: skip
"""Kinds that the timeline omits, because they end, judge or ask: other sections show them."""


@dataclass(frozen=True, slots=True)
class CauseLink:
    """An effect and its cause, as places in the list of happenings."""

    effect: int
    cause: int
    certainty: Certainty


def is_told(kind: str) -> bool:
    """Whether the timeline has that kind."""
    return not kind.startswith(NOT_TOLD)


def links(happenings: Sequence[Happening], slack_ms: int) -> list[CauseLink]:
    """The cause of each happening that has one.

    Args:
        happenings: in order of time.
        slack_ms: so much later than its effect a cause may show, since brokers and partitions are
            listed one after the other.
    """
    index = _Index(happenings)
    by_effect: dict[str, list[Because]] = defaultdict(list)
    for because in TABLE:
        by_effect[because.effect].append(because)
    found = []
    for number, effect in enumerate(happenings):
        best: CauseLink | None = None
        for because in by_effect.get(effect.kind, ()):
            link = _nearest(index, number, effect, because, slack_ms)
            if link is not None and (best is None or link.certainty == "certain"):
                best = link
            if best is not None and best.certainty == "certain":
                break
        if best is not None:
            found.append(best)
    return found


def _nearest(
    index: _Index, number: int, effect: Happening, because: Because, slack_ms: int
) -> CauseLink | None:
    """The newest happening of that kind that fits."""
    slack = slack_ms if because.match in ("left", "joined") else 0
    if because.judged and effect.name and effect.name not in because.judged:
        return None
    since_ms = effect.at_ms - because.within_s * 1_000
    for cause_number in index.between(effect, because, since_ms, effect.at_ms + slack):
        cause = index.happenings[cause_number]
        if cause_number == number:
            continue
        if because.settings and not {*because.settings} & {*cause.name.split()}:
            continue
        if cause.places and effect.topic and effect.place not in cause.places:
            continue
        is_proven = because.proves and effect.at_ms in cause.times
        return CauseLink(number, cause_number, "certain" if is_proven else "inferred")
    return None


class _Index:
    """Happenings by kind and by what they name, each with the times of its signs in order."""

    def __init__(self, happenings: Sequence[Happening]) -> None:
        self.happenings = happenings
        self._by: dict[tuple[object, ...], list[tuple[int, int]]] = defaultdict(list)
        for number, each in enumerate(happenings):
            for at_ms in each.times:
                for key in _keys(each):
                    self._by[(each.kind, *key)].append((at_ms, number))
        for listed in self._by.values():
            listed.sort()

    def between(
        self, effect: Happening, because: Because, since_ms: int, to_ms: int
    ) -> Iterator[int]:
        """Places of happenings of that time with the same key, the newest first."""
        for key in _named(effect, because.match):
            listed = self._by.get((because.cause, *key), ())
            first = bisect_left(listed, (since_ms, -1))
            last = bisect_right(listed, (to_ms, len(self.happenings)))
            for at in range(last - 1, first - 1, -1):
                yield listed[at][1]


def _keys(cause: Happening) -> Iterator[tuple[object, ...]]:
    """The keys under which effects look it up: brokers, partitions, topics, groups."""
    if cause.kind == SETTINGS:
        yield "topic", cause.topic
    if cause.topic:
        yield "partition", *cause.place
    if cause.broker >= 0:
        yield "broker", cause.broker
    if cause.leader >= 0:
        yield "leader", cause.leader
    if not cause.topic and cause.broker < 0:
        yield ("cluster",)


def _named(effect: Happening, match: Match) -> Iterator[tuple[object, ...]]:
    """The keys of its possible causes."""
    match match:
        case "left":
            yield from (("broker", broker) for broker in sorted(effect.left))
        case "joined":
            yield from (("broker", broker) for broker in sorted(effect.joined))
        case "broker":
            yield "broker", effect.broker
        case "leader" if effect.leader >= 0:
            yield "broker", effect.leader
        case "leader":
            yield "leader", effect.broker
        case "cluster":
            yield ("cluster",)
        case "topic":
            yield "topic", effect.topic
            yield "topic", ""
        case _:
            places = effect.places or {effect.place}
            yield from (("partition", *place) for place in sorted(places))
