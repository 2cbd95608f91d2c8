"""How many changes there were, and when: the events of a past, counted by time and class."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from msgspec import Meta

from streaming.bus.view import Event
from streaming.history.span import Span
from twin.declarations.declare import Severity
from twin.declarations.table import Array, Int64
from twin.engine.catalog import Catalog

MOST_BUCKETS: Final = 1_000
DEFAULT_BUCKETS: Final = 240
"""About one for each four pixels of a wide window."""

_END_OF_TIME_MS: Final = 1 << 46
"""Later moments are in no capsule; an event of the query about itself may have no time."""

_SEVERITIES: Final[tuple[Severity, ...]] = ("page", "warn", "info")


class ChangeClass(IntEnum):
    """What a change is about. Those of risks that opened stand by severity, the worst first."""

    OPENED_PAGE = 0
    OPENED_WARN = 1
    OPENED_INFO = 2
    OPENED_OTHER = 3  # of a rule that is not installed here
    CLOSED = 4
    LEADER = 5
    ISR = 6
    BROKER = 7
    OTHER = 8


_OPENED: Final = slice(ChangeClass.OPENED_PAGE, ChangeClass.OPENED_OTHER + 1)

_KINDS: Final = {
    "leader_moved": ChangeClass.LEADER,
    "isr_shrank": ChangeClass.ISR,
    "isr_expanded": ChangeClass.ISR,
    "risk_closed": ChangeClass.CLOSED,
}

_OPENED_AS: Final = dict(zip(_SEVERITIES, ChangeClass, strict=False))


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """Changes by what they are about."""

    total: int
    leader: Annotated[int, Meta(description="another leader")]
    isr: Annotated[int, Meta(description="replicas that left or joined an ISR")]
    risk_opened: Annotated[int, Meta(description="risks that opened")]
    risk_closed: Annotated[int, Meta(description="risks that closed")]
    broker: Annotated[int, Meta(description="a broker came, went, was fenced or fell silent")]
    other: Annotated[int, Meta(description="all other changes")]
    opened_by_severity: Annotated[
        dict[str, int],
        Meta(description="risks that opened, by severity; `other` if the rule is not installed"),
    ]


@dataclass(frozen=True, slots=True)
class Bucket:
    """The changes of one stretch of time."""

    begin_ms: int
    counts: ChangeCounts


@dataclass(frozen=True, slots=True)
class Nearest:
    """The times of the nearest changes before and after a moment; null if there is none."""

    before_ms: int | None
    after_ms: int | None


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of a span by stretches of it. Stretches without a change are left out."""

    span: Annotated[Span, Meta(description="all moments that can be asked about")]
    begin_ms: int
    end_ms: int
    bucket_ms: Annotated[int, Meta(description="length of a stretch; the last may be shorter")]
    counts: Annotated[ChangeCounts, Meta(description="of all stretches together")]
    buckets: list[Bucket]
    nearest: Annotated[Nearest | None, Meta(description="if `around` is given")]


@dataclass(frozen=True, slots=True)
class ChangeTimes:
    """When each change was, in order, and its class."""

    at_ms: Int64  # [N], ascending
    of_class: Array  # [N], ChangeClass

    @classmethod
    def of(cls, messages: Iterable[bytes], catalog: Catalog) -> ChangeTimes:
        """Those of messages of the events topic; repeats and what is no event are passed over."""
        severities = {risk.name: risk.severity for risk in (*catalog.risks, *catalog.cluster.risks)}
        seen: dict[str, tuple[int, ChangeClass]] = {}
        for message in messages:
            try:
                event = msgspec.json.decode(message, type=Event)
            except msgspec.MsgspecError:  # of a stranger's capsule
                continue
            if not 0 <= event.at_ms < _END_OF_TIME_MS:
                continue
            seen[event.id] = event.at_ms, _class_of(event, severities)
        times = np.array(sorted(seen.values()), np.int64).reshape(-1, 2)
        return cls(times[:, 0], times[:, 1])

    def counted(self, span: Span, begin_ms: int, end_ms: int, buckets: int) -> Changes:
        """Counts of the changes between two moments of the span, both included."""
        first = int(np.searchsorted(self.at_ms, begin_ms, "left"))
        last = int(np.searchsorted(self.at_ms, end_ms, "right"))
        length_ms = end_ms - begin_ms + 1
        bucket_ms = -(-length_ms // buckets)
        place = (self.at_ms[first:last] - begin_ms) // bucket_ms
        used, row = np.unique(place, return_inverse=True)
        table = np.zeros((len(used), len(ChangeClass)), np.int64)
        np.add.at(table, (row, self.of_class[first:last]), 1)
        return Changes(
            span, begin_ms, end_ms, bucket_ms, _counts(table.sum(axis=0)),
            [
                Bucket(begin_ms + at * bucket_ms, _counts(counts))
                for at, counts in zip(used.tolist(), table, strict=True)
            ],
            None,
        )  # fmt: skip

    def nearest(self, span: Span, at_ms: int) -> Nearest:
        """The nearest changes of the span before and after a moment."""
        times = self.at_ms[(self.at_ms >= span.begin_ms) & (self.at_ms <= span.end_ms)]
        before = times[: np.searchsorted(times, at_ms, "left")]
        after = times[np.searchsorted(times, at_ms, "right") :]
        return Nearest(
            int(before[-1]) if len(before) else None, int(after[0]) if len(after) else None
        )


def _class_of(event: Event, severities: dict[str, Severity]) -> ChangeClass:
    if event.kind == "risk_opened":
        severity = severities.get(str(event.detail))
        return _OPENED_AS[severity] if severity else ChangeClass.OPENED_OTHER
    if event.kind.startswith("broker_"):
        return ChangeClass.BROKER
    return _KINDS.get(event.kind, ChangeClass.OTHER)


def _counts(by_class: Any) -> ChangeCounts:
    opened = by_class[_OPENED].tolist()
    return ChangeCounts(
        total=int(by_class.sum()),
        leader=int(by_class[ChangeClass.LEADER]),
        isr=int(by_class[ChangeClass.ISR]),
        risk_opened=sum(opened),
        risk_closed=int(by_class[ChangeClass.CLOSED]),
        broker=int(by_class[ChangeClass.BROKER]),
        other=int(by_class[ChangeClass.OTHER]),
        opened_by_severity=dict(zip((*_SEVERITIES, "other"), opened, strict=True)),
    )
