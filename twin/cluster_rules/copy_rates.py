"""How fast brokers copied when they last came back, which is how long the next return takes.

The rate is that of a whole return: what a broker lacked, and what was written meanwhile, over the
time until it had nearly all of it. Bytes of a single cycle say little: with Kafka's default windows
(replication.quota.window.num) a throttle lets ten seconds of bytes pass at once, and then none.

Followers whose broker was not away are not counted, since something else may slow them down. A
return while another broker is silent is not measured: partitions without a leader copy nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.cluster_rules.silent_brokers import SilentBrokers
from twin.declarations.declare import rule
from twin.declarations.signature import Before, Cycle, Lazy
from twin.declarations.table import (
    UNKNOWN,
    ClusterTable,
    Float64,
    Int32,
    Int64,
    ShardReport,
    blank,
    column,
)
from twin.rules.partitions.growth import Growth, RecordSizes
from twin.rules.partitions.leaders import Leaders
from twin.rules.replication.catching_up import CatchingUp
from twin.tables.state import Brokers

SETTLES_MS: Final = 10_000
"""So soon after its first answer it may copy at once what a throttle spreads later."""

BEGINS_WITHIN_MS: Final = 120_000
"""A return is measured if it is seen so soon after the first answer."""

LEAST_MS: Final = 20_000
LEAST_BYTES: Final = 8 << 20
"""A shorter or smaller return gives no rate: fetchers take seconds to start."""

DONE_SHARE: Final = 0.1
"""Of what it lacked. The last replica may wait for something else than bytes."""

STALLED_SHARE: Final = 0.01
"""As long as less is copied, the broker has not begun."""

KEPT_MS: Final = 7 * 86_400_000


class ReturningBrokers(ShardReport, kind="returning_brokers"):
    """[K] brokers that were silent and have replicas of a shard outside the ISR, sorted by id."""

    broker: Int32 = column("broker id")
    back_at_ms: Int64 = column("its first answer after its newest silence")
    lacked_bytes: Float64 = column("what these replicas lack, where that is known", fill=0.0)
    written_bytes_per_s: Float64 = column("bytes written to them a second", fill=0.0)


class CopyRates(ClusterTable, kind="copy_rates"):
    """[K] brokers that came back within a week, and how fast they copied then, sorted by id."""

    broker: Int32 = column("broker id")
    back_at_ms: Int64 = column("first answer of its newest return")
    since_ms: Int64 = column("when the measurement began; unknown if there is none")
    done_at_ms: Int64 = column("when its replicas had nearly all; unknown until then")
    lacked_bytes: Float64 = column("what its replicas lacked when the measurement began", fill=0.0)
    written_bytes: Float64 = column("bytes written to them since", fill=0.0)
    written_bytes_per_s: Float64 = column("bytes written to them a second", fill=0.0)
    bytes_per_s: Float64 = column(
        "bytes copied a second by its newest measured return; NaN if none is", fill=np.nan
    )
    measured_at_ms: Int64 = column("when that ended")
    counted_at_ms: Int64 = column("last cycle that is counted")


@rule
def returning_brokers(
    rows: CatchingUp,
    leaders: Leaders,
    growth: Growth,
    sizes: Lazy[RecordSizes],
    brokers: Brokers,
) -> ReturningBrokers:
    """The sums over replicas outside the ISR, of brokers that answer again."""
    back = brokers.silent_until_ms != UNKNOWN
    is_back = np.isin(rows.broker, brokers.broker[back])
    if not is_back.any():  # nearly always
        return ReturningBrokers.empty()
    row, end = rows.row[is_back].astype(np.intp), rows.end_offset[is_back]
    size = np.nan_to_num(sizes().bytes_per_record[row])
    leader_end = leaders.log_end_offset[row]
    is_known = (leader_end != UNKNOWN) & (end != UNKNOWN)
    # One that ends below the leader's local log starts anew there.
    begins = np.maximum(end, leaders.local_log_start_offset[row])
    lacked = np.where(is_known, np.maximum(leader_end - begins, 0), 0) * size
    written = np.maximum(growth.appended_records_per_s[row], 0) * size
    broker, at = np.unique(rows.broker[is_back], return_inverse=True)
    return ReturningBrokers(
        broker,
        brokers.silent_until_ms[np.searchsorted(brokers.broker, broker)],
        np.bincount(at, lacked, len(broker)).astype(np.float64),
        np.bincount(at, written, len(broker)).astype(np.float64),
    )


@rule
def copy_rates(
    before: Before[CopyRates], here: ReturningBrokers, silent: SilentBrokers, cycle: Cycle
) -> CopyRates:
    """The newest return of each broker until it has nearly all, and the rate measured last."""
    now_ms = cycle.observed_at_ms
    was = _with_new(before, here.broker)
    if not len(was.broker):
        return was
    count, at = len(was.broker), np.searchsorted(was.broker, here.broker)
    lacks = np.bincount(at, here.lacked_bytes, count)
    is_here = np.bincount(at, minlength=count) > 0
    written_per_s = np.bincount(at, here.written_bytes_per_s, count)
    written_per_s = np.where(is_here, written_per_s, was.written_bytes_per_s)
    back = was.back_at_ms.copy()
    np.maximum.at(back, at, here.back_at_ms)

    is_new = (back > was.back_at_ms) | (was.since_ms == UNKNOWN)
    may_begin = is_here & (now_ms - back <= BEGINS_WITHIN_MS) & (was.done_at_ms < back)
    is_measured = ~is_new | may_begin
    is_measured &= not (silent.silent_since_ms != UNKNOWN).any()

    written = was.written_bytes + written_per_s * (now_ms - was.counted_at_ms) / 1_000
    copied = was.lacked_bytes + written - lacks
    starts = is_new | (was.since_ms - back < SETTLES_MS)
    starts |= copied <= STALLED_SHARE * was.lacked_bytes
    is_done = ~is_here | (~starts & (lacks <= DONE_SHARE * was.lacked_bytes))
    took_ms = now_ms - was.since_ms
    is_over = is_measured & ~is_new & is_done
    counts = is_over & (took_ms >= LEAST_MS) & (copied >= LEAST_BYTES)
    goes_on = is_measured & ~is_done
    last_rate = np.where(now_ms - was.measured_at_ms <= KEPT_MS, was.bytes_per_s, np.nan)
    rates = CopyRates(
        broker=was.broker,
        back_at_ms=back,
        since_ms=np.where(goes_on, np.where(starts, now_ms, was.since_ms), UNKNOWN),
        done_at_ms=np.where(is_over, now_ms, was.done_at_ms),
        lacked_bytes=np.where(goes_on, np.where(starts, lacks, was.lacked_bytes), 0.0),
        written_bytes=np.where(goes_on & ~starts, written, 0.0),
        written_bytes_per_s=np.where(goes_on, written_per_s, 0.0),
        bytes_per_s=np.where(counts, copied / np.maximum(took_ms, 1) * 1_000, last_rate),
        measured_at_ms=np.where(counts, now_ms, was.measured_at_ms),
        counted_at_ms=np.full(count, now_ms),
    )
    return rates.pick(now_ms - np.maximum(back, rates.measured_at_ms) <= KEPT_MS)


def _with_new(before: CopyRates, broker: Int32) -> CopyRates:
    """The earlier rows, and a blank row for each broker that has none."""
    new = np.setdiff1d(broker, before.broker)
    _, *others = CopyRates.columns
    return before.with_rows(CopyRates(new, *(blank(c, len(new)) for c in others)), "broker")
