"""Remote storage is away from now on: the answer to ``tier-outage``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Annotated, Final, TypedDict

from streaming.bus.view import ClusterView
from streaming.questions.loss import brokers_lost
from streaming.questions.parameters import duration_ms, number, size_bytes, text
from streaming.questions.question import question
from streaming.questions.tier_outage.disks import BrokerOutage, brokers_in_outage
from streaming.questions.tier_outage.outage_text import outage_text
from streaming.questions.tier_outage.times import Forecast
from twin.declarations.table import UNKNOWN
from twin.engine.shard_reports import ReportIndex
from twin.engine.shard_state import ShardState
from twin.questions.tier_outage import (
    NO_OFFSETS,
    Exposure,
    Offsets,
    OffsetsOnNoDisk,
    TopicOnDisk,
    exposure,
)
from twin.tables.enums import NOT_SET
from twin.tables.state import Brokers

MAX_NAMED: Final = 20
"""Groups and topics that are listed, the worst of them."""

MAX_HELP: Final = 3
"""Topics whose local retention a command lowers."""


class GroupOutage(TypedDict):
    """A group that cannot read its next records.

    ``now``: of partitions that it reads remotely now. ``after_loss``: of others, since those
    brokers are lost. ``after_leader_change``: of others, once their leaders change.
    """

    group: str
    now: Offsets
    after_loss: Offsets
    after_leader_change: Offsets


class TopicOutage(TypedDict):
    """A tiered topic: what it writes to all disks, and what of it is uploaded and kept there.

    Its local retention is -1 without a limit, and null if unknown.
    """

    topic: str
    written_bytes_per_s: int
    uploaded_bytes: int
    local_retention_ms: int | None
    local_retention_bytes: int | None


class TierOutage(TypedDict):
    """What becomes of the cluster while remote storage is away.

    ``survived``: a first disk is full in ``survived_s`` at the earliest, or that is not in sight,
    or unknown. ``half_full_s``: until half of the brokers have a full disk, at the earliest.
    ``on_no_disk``: offsets that only remote storage has, and ``ranges_on_no_disk`` the largest of
    these ranges. ``cannot_start``: followers that need from there what the leader has no longer;
    ``no_new_replica``: partitions of which an empty follower needs it. ``after_leader_change``:
    offsets on the disks of leaders and not of who leads next. ``unknown_partitions``: nobody knows
    whether they are tiered, or what is uploaded.
    ``help``: commands that buy time.
    """

    for_ms: int
    lost: list[int]
    survived: Forecast
    survived_s: float | None
    half_full_s: float | None
    brokers: list[BrokerOutage]
    tiered_partitions: int
    unknown_partitions: int
    on_no_disk: Offsets
    ranges_on_no_disk: Sequence[OffsetsOnNoDisk]
    cannot_start: int
    no_new_replica: int
    after_leader_change: Offsets
    groups: list[GroupOutage]
    groups_total: int
    topics: list[TopicOutage]
    topics_total: int
    help: list[str]


@question(
    "if remote storage is away from now on: when disks are full, and what nobody can read",
    text=outage_text,
    refusals={404: "there is no such broker or rack"},
)
def tier_outage(
    view: ClusterView,
    *,
    for_: Annotated[int, duration_ms("how long remote storage is away", example="6h")] = 21_600_000,
    broker: Annotated[
        Sequence[int], number("a broker that is lost meanwhile", example="3", repeated=True)
    ] = (),
    rack: Annotated[
        Sequence[str], text("a rack that is lost meanwhile", example="az-a", repeated=True)
    ] = (),
    upload_bytes_per_s: Annotated[
        int, size_bytes("what a broker uploads a second afterwards", example="50MiB")
    ] = UNKNOWN,
) -> TierOutage:
    """Take remote storage away from now on.

    Nothing is uploaded then, so nothing is deleted that is not uploaded yet, and disks fill. Shows
    when that is, what consumers cannot read and which replicas cannot start meanwhile, how long
    uploads take to catch up afterwards, and what would buy time.
    """
    own = view.cluster
    if own is not None and not _has_all_reports(own):
        own = None  # sums of some shards foretell nothing
    states = view.states
    lost = brokers_lost(states, broker, rack) if broker or rack else []
    losses = view.lose(lost) if lost else [None] * len(states)
    exposed = reduce(
        add,
        (exposure(state, lost, loss) for state, loss in zip(states, losses, strict=True)),
        Exposure(),
    )
    brokers = brokers_in_outage(own, exposed, _quotas(states), lost, for_, upload_bytes_per_s)
    groups, topics = _groups(exposed), _topics(exposed.topics)
    first = brokers[0] if brokers else None
    return {
        "for_ms": for_,
        "lost": lost,
        "survived": _survived(brokers),
        "survived_s": first["full_after_s"] if first else None,
        "half_full_s": _half_full_s(brokers),
        "brokers": brokers,
        "tiered_partitions": exposed.tiered_partitions,
        "unknown_partitions": exposed.unknown_partitions,
        "on_no_disk": exposed.on_no_disk,
        "ranges_on_no_disk": exposed.ranges_on_no_disk,
        "cannot_start": exposed.cannot_start,
        "no_new_replica": exposed.no_new_replica,
        "after_leader_change": exposed.after_leader_change,
        "groups": groups[:MAX_NAMED],
        "groups_total": len(groups),
        "topics": topics[:MAX_NAMED],
        "topics_total": len(topics),
        "help": _help(brokers, topics),
    }


def _has_all_reports(own: ShardState) -> bool:
    reported = own[ReportIndex]
    return bool(len(reported.shards)) and len(set(reported.shard.tolist())) == int(
        reported.shards[0]
    )


def _survived(brokers: Sequence[BrokerOutage]) -> Forecast:
    """Full, as soon as one broker's disk is; unknown, as long as one broker's may be."""
    words = {each["forecast"] for each in brokers}
    if "full" in words:
        return "full"
    return "not_in_sight" if words == {"not_in_sight"} else "unknown"


def _half_full_s(brokers: Sequence[BrokerOutage]) -> float | None:
    """Brokers come in the order in which their disks are full."""
    half = (len(brokers) + 1) // 2
    return brokers[half - 1]["full_after_s"] if half else None


def _quotas(states: Sequence[ShardState]) -> dict[int, int]:
    """The quota of uploads of each broker."""
    return {
        broker: quota
        for state in states
        for broker, quota in zip(
            state[Brokers].broker.tolist(),
            state[Brokers].copy_max_bytes_per_s.tolist(),
            strict=True,
        )
    }


def _groups(exposed: Exposure) -> list[GroupOutage]:
    """The groups that cannot read, the worst first."""
    each = (exposed.groups, exposed.groups_after_loss, exposed.groups_after_leader_change)
    names = sorted({name for of in each for name in of})
    groups: list[GroupOutage] = [
        {
            "group": name,
            "now": each[0].get(name, NO_OFFSETS),
            "after_loss": each[1].get(name, NO_OFFSETS),
            "after_leader_change": each[2].get(name, NO_OFFSETS),
        }
        for name in names
    ]
    return sorted(groups, key=_worst_first)


def _worst_first(row: GroupOutage) -> tuple[int, int, int]:
    each = row["now"], row["after_loss"], row["after_leader_change"]
    now, after_loss, after_change = (-offsets.bytes for offsets in each)
    return now, after_loss, after_change


def _topics(topics: Mapping[str, TopicOnDisk]) -> list[TopicOutage]:
    """The topics that fill disks, the most bytes a second first."""
    rows: list[TopicOutage] = [
        {
            "topic": name,
            "written_bytes_per_s": round(each.written_bytes_per_s),
            "uploaded_bytes": each.uploaded_bytes,
            "local_retention_ms": _known(each.local_retention_ms),
            "local_retention_bytes": _known(each.local_retention_bytes),
        }
        for name, each in topics.items()
    ]
    return sorted(rows, key=lambda row: (-row["written_bytes_per_s"], row["topic"]))


def _known(retention: int) -> int | None:
    return None if retention == NOT_SET else retention


def _help(brokers: Collection[BrokerOutage], topics: Sequence[TopicOutage]) -> list[str]:
    """Commands that free what disks lack, by less local retention of the largest topics."""
    short = [each for each in brokers if each["missing_bytes"]]
    missing = sum(each["missing_bytes"] or 0 for each in short)
    uploaded = sum(each["uploaded_bytes"] or 0 for each in short)
    if not missing or not uploaded:
        return []
    share = max(1 - missing / uploaded, 0)
    commands = []
    for each in sorted(topics, key=lambda row: -row["uploaded_bytes"])[:MAX_HELP]:
        for name in ("ms", "bytes"):
            kept = each[f"local_retention_{name}"]  # type: ignore[literal-required]
            if kept is not None and kept > 0 and each["uploaded_bytes"]:
                commands.append(
                    "kafka-configs.sh --alter --entity-type topics --entity-name "
                    f"{each['topic']} --add-config local.retention.{name}={round(kept * share)}"
                )
    return commands
