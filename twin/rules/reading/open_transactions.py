"""Open transactions that hold a partition back.

Consumers with isolation level read_committed read up to the last stable offset, which stays at the
first record of the oldest open transaction. Uploads stop there too: a segment is copied to remote
storage only once it ends below the last stable offset. So if nobody ends a transaction, the
disk fills, and consumers stand still while records are written.

Source: UnifiedLog.lastStableOffset, RemoteLogManager.RLMCopyTask.candidateLogSegments, Kafka 4.3.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import Alert, api_field, gauge, risk, rule
from twin.declarations.results import OfRows
from twin.declarations.signature import Before, Cycle
from twin.declarations.table import (
    UNKNOWN,
    Array,
    Bool,
    Int64,
    Observation,
    SparseTable,
    Text,
    column,
)
from twin.rules.partitions.leaders import Leaders
from twin.rules.replication.high_watermark import HighWatermarks
from twin.tables.columns import PartitionKey
from twin.tables.state import Partitions

LONG_MS: Final = 120_000
"""Twice the default of transaction.timeout.ms, after which the coordinator aborts a transaction."""


HOLDER_STAYS_MS: Final = 600_000
"""The collector repeats the answer each minute while the transaction is open."""


class TransactionsFrame(Observation, PartitionKey, kind="transactions", event=True):
    """One row a partition whose leader was asked who holds its oldest open transaction."""

    stable_offset: Int64 = column("offset at which the transaction began", source="KIP-664")
    producer_id: Int64 = column("id of its producer", source="DescribeProducers")
    transactional_id: Text = column(
        "transactional id of the producer, empty if no coordinator names it",
        source="ListTransactions",
        fill="",
    )
    began_at_ms: Int64 = column(
        "when it began, by the clock of its coordinator", source="DescribeTransactions"
    )


class TransactionHolders(SparseTable, kind="transaction_holders"):
    """[N] one row a partition: who held its oldest open transaction when its leader said so."""

    stable_offset: Int64 = column("offset at which the transaction began", source="KIP-664")
    producer_id: Int64 = column("id of its producer", source="DescribeProducers")
    transactional_id: Text = column("transactional id, empty if unknown", fill="")
    began_at_ms: Int64 = column("when it began, by the clock of its coordinator")
    read_at_ms: Int64 = column("when it was read")


class OpenTransactions(SparseTable, kind="open_transactions"):
    """[N] one row a partition whose last stable offset is below its high watermark."""

    stable_offset: Int64 = column("its last stable offset")
    since_ms: Int64 = column("when it was first observed there")
    held_ms: Int64 = column("time from then to the leader's last answer")
    records_held: Int64 = column("records between it and the high watermark")


@rule
def open_transactions(
    leaders: Leaders, watermarks: HighWatermarks, before: Before[OpenTransactions], cycle: Cycle
) -> OpenTransactions:
    """A transaction is open where the last stable offset stays below the high watermark.

    If the last stable offset moves, another transaction holds it. The high watermark may be an
    estimate, which is up to one fetch ahead of the leader's own. So one sample proves nothing: the
    time begins with it. It does not pass while the leader does not answer.
    """
    stable, watermark = leaders.last_stable_offset, watermarks.high_watermark
    answered = leaders.sampled_at_ms == cycle.observed_at_ms
    holds = answered & (stable != UNKNOWN) & (watermark != UNKNOWN) & (stable < watermark)
    row = np.flatnonzero(holds).astype(np.int32)
    at_ms = leaders.sampled_at_ms[row]
    held_before, held_now = before.row.astype(np.int64), row.astype(np.int64)
    same = keys.look_up(held_before, before.stable_offset, held_now) == stable[row]
    since_ms = np.where(same, keys.look_up(held_before, before.since_ms, held_now), at_ms)
    open_now = OpenTransactions(
        row=row,
        stable_offset=stable[row],
        since_ms=since_ms,
        held_ms=at_ms - since_ms,
        records_held=watermark[row] - stable[row],
    )
    return before.pick(~answered[before.row]).with_rows(open_now)


@risk(
    "transaction_open",
    rank=105,
    severity="warn",
    close_after_ms=10_000,
    sentence="an open transaction holds back uploads and consumers with read_committed",
    source="UnifiedLog.lastStableOffset, RemoteLogManager.RLMCopyTask, Kafka 4.3",
    alert=Alert(
        summary="are held back by an open transaction",
        description="The last stable offset of {n} partitions of {cluster} is below the high "
        "watermark and has not moved for two minutes or more: consumers with read_committed get "
        "no record beyond it, and nothing beyond it is uploaded. Of each partition "
        "open_transaction in the API has the producer id, the transactional id and since when.",
        # Transactions with a long timeout, as between checkpoints of Flink, last minutes.
        wait="5m",
        keep_firing_for="5m",
    ),
)
def holds_back(transactions: OpenTransactions, partitions: Partitions) -> Bool:
    """The last stable offset has stayed for LONG_MS or longer."""
    long = transactions.pick(transactions.held_ms >= LONG_MS)
    return long.row_mask(len(partitions.leader))


# ---------------------------------------------------------------- exported


@gauge(
    "last_stable_offset",
    "First offset of the partition that consumers with read_committed do not get, by its leader.",
    level="partition",
)
def last_stable_offset(leaders: Leaders) -> Array:
    """The last stable offset, unknown where the leader did not answer."""
    return leaders.last_stable_offset


@gauge(
    "transaction_open_seconds",
    "Seconds for which an open transaction has held the partition's last stable offset.",
    level="partition",
)
def transaction_open_seconds(transactions: OpenTransactions) -> OfRows:
    """The time of each open transaction; no series without one."""
    open_rows = transactions.pick(transactions.held_ms > 0)
    return OfRows(open_rows.row, open_rows.held_ms / 1000)


@gauge(
    "transaction_held_records",
    "Records that consumers with read_committed do not get because a transaction is open.",
)
def transaction_held_records(transactions: OpenTransactions) -> int:
    """The records held where the last stable offset has stayed for more than one cycle."""
    return int(transactions.records_held[transactions.held_ms > 0].sum())


@api_field(
    "open_transaction",
    "a transaction that keeps the last stable offset below the high watermark: `stable_offset`, "
    "`since_ms` when that was first observed, `held_ms` until the leader's last answer, "
    "`records_held` from there to the high watermark; who holds it: `producer_id`, "
    "`transactional_id` and `began_at_ms`, each null if unknown; null where none is open",
)
def open_transaction_field(
    transactions: OpenTransactions, holders: TransactionHolders, partitions: Partitions
) -> list[dict[str, Any] | None]:
    """The transaction where the last stable offset has stayed for more than one cycle.

    The holder is given only if it was named for the same last stable offset.
    """
    named = {
        (row, offset): i
        for i, (row, offset) in enumerate(
            zip(holders.row.tolist(), holders.stable_offset.tolist(), strict=True)
        )
    }
    objects: list[dict[str, Any] | None] = [None] * len(partitions.leader)
    names = [c.name for c in OpenTransactions.columns if c.name != "row"]
    for i in np.flatnonzero(transactions.held_ms > 0).tolist():
        row, offset = int(transactions.row[i]), int(transactions.stable_offset[i])
        numbers = {name: int(getattr(transactions, name)[i]) for name in names}
        objects[row] = {**numbers, **_holder(holders, named.get((row, offset)))}
    return objects


def _holder(holders: TransactionHolders, i: int | None) -> dict[str, int | str | None]:
    """Who holds a transaction, null where that is unknown."""
    if i is None:
        return dict.fromkeys(("producer_id", "transactional_id", "began_at_ms"))
    began_at_ms = int(holders.began_at_ms[i])
    return {
        "producer_id": int(holders.producer_id[i]),
        "transactional_id": holders.transactional_id[i] or None,
        "began_at_ms": None if began_at_ms == UNKNOWN else began_at_ms,
    }
