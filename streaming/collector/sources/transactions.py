"""Who holds a transaction open: asks a partition's leader, then the coordinators.

The last stable offset of a partition stays at the first record of its oldest open transaction.
Where it stays below the log end from one cycle to the next, DescribeProducers of the leader names
the producer whose transaction begins there (READ on the topic). Only the coordinator knows the
transactional id of that producer: ListTransactions, filtered by producer id, goes to every broker,
and DescribeTransactions to those that list one (DESCRIBE on the transactional id; Kafka hides
others). If no coordinator lists the producer, it has no id: its transaction hangs, or the right is
missing.

Source: KIP-664; KafkaApis.handleDescribeProducersRequest, handleListTransactionsRequest, Kafka 3.0.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from kafka.protocol.admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

from streaming.bus.arrow import dictionary, numbers, texts
from streaming.collector.about import About, Acl, Needed
from streaming.collector.context import CycleContext
from streaming.collector.denied import DeniedTopics
from streaming.collector.listing import Array, ListedPlacement, PartitionListing
from streaming.collector.problem import Problem, from_code, is_lasting
from streaming.collector.reading import Reading, Rows, partition_keys
from streaming.collector.source import Setup, Source
from streaming.collector.sources.leader_offsets import LeaderOffsets
from streaming.collector.sources.metadata import ClusterMetadata
from streaming.collector.sources.replica_status import ReplicaStatus
from streaming.collector.wire.connections import EncodedRequest, Versions, negotiate_version
from streaming.runtime.deadline import Deadline
from twin.declarations.table import UNKNOWN
from twin.rules.reading.open_transactions import TransactionsFrame

PRODUCERS: Final = About(
    "transaction producers",
    "which producer holds an open transaction",
    Acl("READ", "topic", option="collector.timestamps"),  # also needed for timestamps
    needs=(Needed(DescribeProducersRequest, "Kafka 3.0", highest=0),),
    idle="no transaction stays open from one cycle to the next",
)
TRANSACTIONAL_IDS: Final = About(
    "transactional ids",
    "the transactional id of an open transaction, and when it began",
    Acl("DESCRIBE", "transactional-id"),
    needs=(
        Needed(ListTransactionsRequest, "Kafka 3.0", highest=0),
        Needed(DescribeTransactionsRequest, "Kafka 3.0", highest=0),
    ),
    idle="no transaction stays open from one cycle to the next",
)

AGAIN_MS: Final = 60_000
"""A transaction that stays open is read again, for a query that starts without state."""

MOST_PARTITIONS: Final = 200
"""Partitions that are read in a cycle; the others follow in later cycles."""

_SHARE_OF_DEADLINE: Final = 0.3
_NO_SUCH_ID: Final = "kafka-twin-check"


@dataclass(frozen=True, slots=True)
class Holder:
    """The producer whose transaction keeps a partition's last stable offset."""

    row: int  # of the placement
    stable_offset: int
    producer_id: int
    transactional_id: str = ""
    began_at_ms: int = UNKNOWN  # by the coordinator's clock


@dataclass(frozen=True, slots=True, eq=False)
class Holders(Reading):
    """The holders that were found in one cycle, by row."""

    placement: ListedPlacement
    holders: Sequence[Holder]

    def tables(self, shard: int) -> Iterator[Rows]:
        """The holders of a shard's partitions, if there are any."""
        first, stop = self.placement.partition_cuts[shard : shard + 2]
        here = [h for h in self.holders if first <= h.row < stop]
        if here:
            columns = {
                **partition_keys(self.placement, np.array([h.row for h in here])),
                "stable_offset": numbers([h.stable_offset for h in here], pa.int64()),
                "producer_id": numbers([h.producer_id for h in here], pa.int64()),
                "transactional_id": dictionary(
                    range(len(here)), texts([h.transactional_id for h in here])
                ),
                "began_at_ms": numbers([h.began_at_ms for h in here], pa.int64()),
            }
            yield TransactionsFrame, pa.table(columns, schema=TransactionsFrame.schema())


class TransactionSource(Source):
    """Remembers the last stable offsets, and when the holder of each was requested."""

    about = (PRODUCERS, TRANSACTIONAL_IDS)

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """Read in each cycle, for partitions whose last stable offset does not move."""
        return cls(setup.client_id, retry_denied_ms=setup.retry_denied_ms)

    def __init__(self, client_id: str, *, retry_denied_ms: int, again_ms: int = AGAIN_MS) -> None:
        self._client_id = client_id
        self._again_s = again_ms / 1_000
        self._placement: ListedPlacement | None = None
        self._stable = np.zeros(0, np.int64)  # [N] in the cycle before
        self._requests: dict[int, tuple[int, float]] = {}  # last stable offset and time, by row
        self._denied = DeniedTopics(retry_denied_ms)
        self._unanswered: dict[tuple[str, int], Problem] = {}  # of the last requests
        self._ids_denied: Problem | None = None

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Refused and missing responses, while a transaction is open."""
        denied = self._denied.problems(PRODUCERS.name, "who holds transactions there is unknown")
        ids = () if self._ids_denied is None else (self._ids_denied,)
        return (*self._unanswered.values(), *denied, *ids)

    def read(
        self,
        context: CycleContext,
        metadata: ClusterMetadata,
        status: ReplicaStatus,
        offsets: LeaderOffsets,
    ) -> Holders | None:
        """The holders of the transactions that were read in this cycle."""
        listing = status.listing
        due = self._due(listing.placement, offsets.last_stable_offset, offsets.high_watermark)
        if not due:
            return None
        deadline = context.deadline(_SHARE_OF_DEADLINE)
        self._unanswered = {}
        holders = self._ask_leaders(context, listing, due, deadline)
        if holders:
            brokers = [address.broker for address in metadata.addresses]
            holders = self._with_ids(context, brokers, holders, deadline)
        if not self._unanswered:  # otherwise the next cycle reads all again
            asked_at_s = time.monotonic()
            self._requests |= {row: (offset, asked_at_s) for row, offset in due.items()}
        return Holders(listing.placement, holders)

    def send_again(self, reading: Holders) -> None:
        """Read these again: the rows did not reach the bus."""
        for holder in reading.holders:
            self._requests.pop(holder.row, None)

    def _due(self, placement: ListedPlacement, stable: Array, watermark: Array) -> dict[int, int]:
        """The last stable offset by row, of the partitions to read.

        ``stable`` and ``watermark`` are of replicas ([N]): the offsets of leaders.
        """
        if placement is not self._placement:
            self._placement, self._stable = placement, np.full(len(stable), UNKNOWN, np.int64)
            self._requests = {}
        before, self._stable = self._stable, stable
        replicas = np.flatnonzero((stable != UNKNOWN) & (stable < watermark) & (stable == before))
        rows = placement.partition_of[replicas]
        offset_of = dict(zip(rows.tolist(), stable[replicas].tolist(), strict=True))
        self._requests = {row: r for row, r in self._requests.items() if row in offset_of}
        topic_of = {row: placement.topic[placement.topic_of[row]] for row in offset_of}
        self._denied.keep_only(set(topic_of.values()))
        if not offset_of:
            self._unanswered, self._ids_denied = {}, None
        waiting, oldest_s = self._denied.waiting(), time.monotonic() - self._again_s
        due = [
            (row, offset)
            for row, offset in offset_of.items()
            if topic_of[row] not in waiting and not self._is_recent(row, offset, oldest_s)
        ]
        return dict(due[:MOST_PARTITIONS])

    def _is_recent(self, row: int, offset: int, oldest_s: float) -> bool:
        """Whether the leader was asked about that offset since then."""
        request = self._requests.get(row)
        return request is not None and request[0] == offset and request[1] > oldest_s

    def _ask_leaders(
        self,
        context: CycleContext,
        listing: PartitionListing,
        due: Mapping[int, int],
        deadline: Deadline,
    ) -> list[Holder]:
        """Ask the leaders which producer's transaction begins at each last stable offset."""
        placement = listing.placement
        partitions: defaultdict[int, defaultdict[str, list[int]]]  # by leader and topic
        partitions, row_of = defaultdict(lambda: defaultdict(list)), {}
        for row in due:
            topic, number = placement.topic[placement.topic_of[row]], int(placement.partition[row])
            partitions[int(listing.leader[row])][topic].append(number)
            row_of[topic, number] = row
        kind = DescribeProducersRequest.TopicRequest
        requests = {
            leader: DescribeProducersRequest(
                topics=[kind(name=name, partition_indexes=some) for name, some in topics.items()]
            )
            for leader, topics in partitions.items()
        }
        answers = self._ask(context, requests, DescribeProducersResponse, PRODUCERS, deadline)
        holders = []
        for name, partition in _partitions(answers.values()):
            if is_lasting(partition.error_code):
                self._denied.add(name, partition.error_code)
            elif partition.error_code == 0:
                self._denied.discard(name)
                place = row_of[name, partition.partition_index]
                holders += [
                    Holder(place, due[place], producer.producer_id)
                    for producer in partition.active_producers
                    if producer.current_txn_start_offset == due[place]
                ]
        return holders

    def _with_ids(
        self,
        context: CycleContext,
        brokers: Sequence[int],
        holders: Sequence[Holder],
        deadline: Deadline,
    ) -> list[Holder]:
        """Add to the holders the data that their coordinators have."""
        producers = sorted({holder.producer_id for holder in holders})
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=producers)
        listed = self._ask(
            context, dict.fromkeys(brokers, request), ListTransactionsResponse,
            TRANSACTIONAL_IDS, deadline,
        )  # fmt: skip
        ids = {
            broker: [state.transactional_id for state in answer.transaction_states]
            for broker, answer in listed.items()
        }
        # Only describing an id shows whether ids are hidden.
        requests = {
            broker: DescribeTransactionsRequest(transactional_ids=names or [_NO_SUCH_ID])
            for broker, names in ids.items()
            if names or not any(ids.values())
        }
        described = self._ask(
            context, requests, DescribeTransactionsResponse, TRANSACTIONAL_IDS, deadline
        )
        self._ids_denied = None
        known: dict[int, Any] = {}
        for answer in described.values():
            for state in answer.transaction_states:
                problem = from_code(TRANSACTIONAL_IDS.name, state.error_code, "it stays unknown")
                if problem.is_denied:
                    self._ids_denied = problem
                elif state.error_code == 0:
                    known[state.producer_id] = state
        return [
            replace(
                holder,
                transactional_id=known[holder.producer_id].transactional_id,
                began_at_ms=known[holder.producer_id].transaction_start_time_ms,
            )
            if holder.producer_id in known
            else holder
            for holder in holders
        ]

    def _ask(
        self,
        context: CycleContext,
        requests: Mapping[int, Any],
        response: Any,
        about: About,
        deadline: Deadline,
    ) -> dict[int, Any]:
        """The decoded responses of the brokers that support the request; notes silent brokers."""

        def make(broker: int, versions: Versions) -> list[EncodedRequest]:
            version = negotiate_version(versions, type(requests[broker]), 0)
            if version is None:
                return []
            return [EncodedRequest.encode(requests[broker], version, self._client_id)]

        answers = {}
        for broker, answer in context.brokers.ask(sorted(requests), make, deadline).items():
            if answer.problem is not None:
                self._unanswered[about.name, broker] = answer.problem.at(about.name)
            if answer.first is not None:
                answers[broker] = response.decode(answer.first, version=0)
        return answers


def _partitions(answers: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """The partitions of DescribeProducers responses, and their topics."""
    for answer in answers:
        for topic in answer.topics:
            for partition in topic.partitions:
                yield topic.name, partition
