"""Asks each coordinator for the offsets and members of its groups, a few requests at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from streaming.collector.groups import requests
from streaming.collector.groups.committed import OffsetFetchBatch
from streaming.collector.groups.group_listing import ListedGroup
from streaming.collector.groups.members import DescribeBatch, classic_batch, consumer_batch
from streaming.collector.groups.round import Answers
from streaming.collector.wire.connections import BrokerConnections, EncodedRequest, Versions
from streaming.runtime.deadline import Deadline

Batch = OffsetFetchBatch | DescribeBatch


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits on the requests to one coordinator."""

    groups: int = 200  # of a request; at 100 offsets each, a broker builds a response of 0.4 MB
    requests: int = 20  # that share one deadline


@dataclass(frozen=True, slots=True)
class _KeptBatches:
    """The batches of one coordinator, and the input that they were made from."""

    versions: Versions
    groups: Mapping[str, str]  # type by name
    batches: Sequence[Batch]


class Coordinators:
    """Keeps the requests to each coordinator while its groups are the same."""

    def __init__(self, client_id: str, limits: RequestLimits) -> None:
        self._client_id = client_id
        self._limits = limits
        self._kept: dict[int, _KeptBatches] = {}

    def ask(
        self,
        connections: BrokerConnections,
        groups: Mapping[str, ListedGroup],
        versions: Mapping[int, Versions],
        deadline: Callable[[], Deadline],
    ) -> Answers:
        """Ask about these groups. A coordinator that fails gets no further request."""
        left = self._batches(groups, versions)
        answers = Answers()
        while left:
            now = {broker: batches[: self._limits.requests] for broker, batches in left.items()}
            left = {b: rest for b, all_ in left.items() if (rest := all_[self._limits.requests :])}

            make = partial(_requests, now)
            for broker, response in connections.ask(sorted(now), make, deadline()).items():
                for batch, body in zip(now[broker], response.bodies, strict=False):
                    if body is not None:
                        _add(answers, batch, body)
                if response.problem is not None:
                    answers.problems.append(response.problem.at(requests.GROUPS.name))
                    left.pop(broker, None)
        return answers

    def _batches(
        self, groups: Mapping[str, ListedGroup], versions: Mapping[int, Versions]
    ) -> dict[int, Sequence[Batch]]:
        """The requests to each coordinator; kept ones are used again where they fit."""
        by_broker: defaultdict[int, dict[str, str]] = defaultdict(dict)
        for name in sorted(groups):
            by_broker[groups[name].coordinator][name] = groups[name].type
        kept: dict[int, _KeptBatches] = {}
        for broker, types in by_broker.items():
            old, theirs = self._kept.get(broker), versions.get(broker)
            if theirs is None:
                continue
            if old is not None and old.versions == theirs and old.groups == types:
                kept[broker] = old
            else:
                kept[broker] = _KeptBatches(theirs, types, [*self._made(types, theirs)])
        self._kept = kept
        return {broker: each.batches for broker, each in kept.items() if each.batches}

    def _made(self, types: Mapping[str, str], versions: Versions) -> Iterable[Batch]:
        fetched = [name for name, type_ in types.items() if type_ != SHARE]
        classic = [name for name, type_ in types.items() if type_ in (CLASSIC, UNNAMED)]
        modern = [name for name, type_ in types.items() if type_ == CONSUMER]
        version = requests.offset_fetch_version(versions)
        if version is not None:
            at_once = self._limits.groups if version >= requests.SEVERAL_GROUPS else 1
            for names in _cut(fetched, at_once):
                yield OffsetFetchBatch(names, version, self._client_id)
        version = requests.describe_groups_version(versions)
        if version is not None:
            for names in _cut(classic, self._limits.groups):
                yield classic_batch(names, version, self._client_id)
        version = requests.consumer_group_describe_version(versions)
        if version is not None:
            for names in _cut(modern, self._limits.groups):
                yield consumer_batch(names, version, self._client_id)


CLASSIC, CONSUMER, SHARE, UNNAMED = "classic", "consumer", "share", ""
"""Types of groups; Kafka before 3.8 names no type, and its groups are classic."""


def _cut(names: Sequence[str], size: int) -> Iterable[Sequence[str]]:
    return (names[start : start + size] for start in range(0, len(names), size))


def _requests(now: Mapping[int, Sequence[Batch]], broker: int, _: Versions) -> list[EncodedRequest]:
    return [batch.request for batch in now[broker]]


def _add(answers: Answers, batch: Batch, body: bytes) -> None:
    if isinstance(batch, OffsetFetchBatch):
        answers.add_offsets(batch.groups, batch.read(body))
    else:
        answers.described.append(batch.read(body))
