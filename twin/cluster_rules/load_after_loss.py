"""Brokers that would carry more than their capacity if another broker were lost.

The capacity is what the configuration says of each broker: bytes a second from producers and to
consumers, as Kafka counts them in BytesInPerSec and BytesOutPerSec, or a percentage of the most
that it carried in a week. Without it nothing is judged, and shards report nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

import numpy as np

from twin.arrays import keys
from twin.declarations.declare import Alert, Occurrence, event, gauge, risk, rule
from twin.declarations.results import ByBroker
from twin.declarations.signature import Cycle, Earlier
from twin.declarations.table import (
    NO_BROKER,
    UNKNOWN,
    Array,
    ClusterTable,
    Float64,
    Int8,
    Int32,
    Int64,
    ShardReport,
    column,
)
from twin.rules.election.next_leader import NextLeaders
from twin.rules.load.amounts import IN, LEADERS, OUT, QUANTITIES, Amounts
from twin.rules.load.capacity import is_limited, peak_percents, set_capacities, with_peaks
from twin.rules.load.forecast import LoadForecast, exceeds, in_turn, measured
from twin.rules.load.peaks import CarriedPeaks
from twin.rules.load.shifts import Carried, LoadTables, Shifts
from twin.tables.state import BrokerMetrics, Brokers

_JUDGED = (LEADERS, IN, OUT)
_NAMES = {LEADERS: "leaders", IN: "bytes_in", OUT: "bytes_out"}


class Direction(IntEnum):
    """Where the bytes of a broker come from or go."""

    IN = 0  # from producers
    OUT = 1  # to consumers


class BrokerLoads(ShardReport, kind="broker_loads", version=2):
    """[K] what each broker carries of a shard, sorted by id; no rows where no capacity is set.

    What brokers measure, and their capacity, are the same in every shard.
    """

    broker: Int32 = column("broker id")
    leaders: Int64 = column("partitions that it leads", fill=0)
    leaders_unknown: Int64 = column("always 0", fill=0)
    bytes_in: Int64 = column("bytes a second from producers, by known rates", fill=0)
    bytes_in_unknown: Int64 = column("partitions of unknown rate that it leads", fill=0)
    bytes_out: Int64 = column("bytes a second to consumers, by known rates", fill=0)
    bytes_out_unknown: Int64 = column("partitions of groups of unknown rate", fill=0)
    measured_bytes_in_per_s: Float64 = column("the broker's own metric", fill=np.nan)
    measured_bytes_out_per_s: Float64 = column("the broker's own metric", fill=np.nan)
    capacity_bytes_in_per_s: Float64 = column("its capacity; NaN if none is set", fill=np.nan)
    capacity_bytes_out_per_s: Float64 = column("its capacity; NaN if none is set", fill=np.nan)
    capacity_peak_percent: Float64 = column(
        "its capacity as a percentage of the most it carried in a week; NaN if none is set",
        fill=np.nan,
    )


class LoadShifts(ShardReport, kind="load_shifts"):
    """[K] what a survivor gets of a shard by the loss of a broker, where it gets something."""

    lost_broker: Int32 = column("broker id of the lost broker")
    broker: Int32 = column("broker id of the survivor")
    leaders: Int64 = column("partitions that it leads then and not now", fill=0)
    leaders_unknown: Int64 = column("always 0", fill=0)
    bytes_in: Int64 = column("bytes a second of producers, by known rates", fill=0)
    bytes_in_unknown: Int64 = column("of these, partitions of unknown rate", fill=0)
    bytes_out: Int64 = column("bytes a second of consumers, by known rates", fill=0)
    bytes_out_unknown: Int64 = column("of these, partitions of groups of unknown rate", fill=0)
    dropped_bytes_out: Int64 = column("bytes a second that others serve then", fill=0)
    dropped_bytes_out_unknown: Int64 = column("of these, partitions of unknown rate", fill=0)


@rule
def broker_loads(
    tables: LoadTables, metrics: BrokerMetrics, brokers: Brokers, cycle: Cycle
) -> BrokerLoads:
    """The sums of a shard, if a capacity is set."""
    if not is_limited(brokers):
        return BrokerLoads.empty()
    capacity = set_capacities(brokers, brokers.broker)
    percent = peak_percents(brokers, brokers.broker)
    own = measured(metrics, brokers.broker, cycle.observed_at_ms)
    now = Carried(tables, brokers.broker, cycle.observed_at_ms).now()
    sums = [part[quantity] for quantity in _JUDGED for part in (now.known, now.unknown)]
    return BrokerLoads.from_values(
        [brokers.broker, *sums, own[IN], own[OUT], capacity[IN], capacity[OUT], percent]
    )


@rule
def load_shifts(
    tables: LoadTables, brokers: Brokers, following: NextLeaders, cycle: Cycle
) -> LoadShifts:
    """What shifts by Kafka's election rule, if a capacity is set."""
    if not is_limited(brokers):
        return LoadShifts.empty()
    carried = Carried(tables, brokers.broker, cycle.observed_at_ms)
    shifts = carried.shifts(carried.next_leaders(following))
    gained, dropped = shifts.gained, shifts.dropped
    columns = [part[quantity] for quantity in _JUDGED for part in (gained.known, gained.unknown)]
    columns += [dropped.known[OUT], dropped.unknown[OUT]]
    lost, survivor = np.nonzero(np.logical_or.reduce([each != 0 for each in columns]))
    return LoadShifts(
        brokers.broker[lost], brokers.broker[survivor], *(each[lost, survivor] for each in columns)
    )


class LossLoads(ClusterTable, kind="loads_after_loss"):
    """[K] the loss that would bring each broker the highest share of its capacity, sorted by id."""

    broker: Int32 = column("broker id")
    capacity_ratio: Float64 = column(
        "bytes a second that it would carry over its capacity, where they grow; NaN where no loss "
        "brings it more, or that is unknown",
        fill=np.nan,
    )
    lost_broker: Int32 = column("broker id of the lost broker", fill=NO_BROKER)
    direction: Int8 = column("whether these come from producers or go to consumers", enum=Direction)
    is_above: Int8 = column("a loss would bring it above its capacity", tri_state=True)


@rule
def loads_after_loss(
    loads: BrokerLoads, shifts: LoadShifts, peaks: CarriedPeaks, cycle: Cycle
) -> LossLoads:
    """By the sums of all shards."""
    broker, at = np.unique(loads.broker, return_inverse=True)
    if not len(broker):
        return LossLoads.empty()
    forecast, limit = _forecast(broker, at, loads, shifts)
    percent = highest_of(loads.capacity_peak_percent, at, len(broker))
    capacity = with_peaks(limit, percent, peaks, broker, cycle.observed_at_ms)
    above, may_be = exceeds(forecast, capacity)
    is_survivor = ~np.eye(len(broker), dtype=bool)
    above, may_be = above & is_survivor, may_be & is_survivor
    with np.errstate(invalid="ignore"):
        grows = is_survivor & (forecast.then.known > forecast.now.known[:, None])
        ratio = np.where(grows, forecast.then.known / capacity[:, None], np.nan)
    # [K, 2B]: of each broker, by direction and lost broker; the lowest id of equals.
    by_loss = np.concatenate([ratio[IN], ratio[OUT]]).T
    worst = np.where(np.isnan(by_loss), -1.0, by_loss).argmax(axis=1)
    highest = by_loss[np.arange(len(broker)), worst]
    is_known = ~np.isnan(highest)
    direction, lost = np.divmod(worst, len(broker))
    is_above, is_unknown = above.any(axis=(0, 1)), may_be.any(axis=(0, 1))
    return LossLoads(
        broker,
        highest,
        np.where(is_known, broker[lost], np.int32(NO_BROKER)),
        np.where(is_known, direction, UNKNOWN).astype(np.int8),
        np.where(is_above, 1, np.where(is_unknown, UNKNOWN, 0)).astype(np.int8),
    )


def _forecast(
    broker: Int32, at: Array, loads: BrokerLoads, shifts: LoadShifts
) -> tuple[LoadForecast, Float64]:
    """The forecast for each broker lost in turn, and [Q, B] the capacities that are set."""
    size, quantities = len(broker), len(QUANTITIES)
    own, capacity = np.full((2, quantities, size), np.nan)
    now = _zeros(size)
    gained, dropped = _zeros(size, size), _zeros(size, size)
    lost = keys.find_sorted(broker, shifts.lost_broker)
    survivor = keys.find_sorted(broker, shifts.broker)
    is_here = (lost != UNKNOWN) & (survivor != UNKNOWN)
    place = lost[is_here], survivor[is_here]
    for quantity, name in _NAMES.items():
        np.add.at(now.known[quantity], at, getattr(loads, name))
        np.add.at(now.unknown[quantity], at, getattr(loads, f"{name}_unknown"))
        np.add.at(gained.known[quantity], place, getattr(shifts, name)[is_here])
        np.add.at(gained.unknown[quantity], place, getattr(shifts, f"{name}_unknown")[is_here])
    np.add.at(dropped.known[OUT], place, shifts.dropped_bytes_out[is_here])
    np.add.at(dropped.unknown[OUT], place, shifts.dropped_bytes_out_unknown[is_here])
    for quantity, name in ((IN, "bytes_in_per_s"), (OUT, "bytes_out_per_s")):
        own[quantity] = highest_of(getattr(loads, f"measured_{name}"), at, size)
        capacity[quantity] = highest_of(getattr(loads, f"capacity_{name}"), at, size)
    return in_turn(now, Shifts(gained, dropped), own), capacity


def _zeros(*shape: int) -> Amounts:
    known, unknown = np.zeros((2, len(QUANTITIES), *shape), np.int64)
    return Amounts(known, unknown)


def highest_of(values: Float64, at: Array, size: int) -> Float64:
    """[B] the highest value of each broker over all shards, NaN without one.

    Shards report the same value, except those whose newest report is of an earlier cycle.
    """
    highest = np.full(size, np.nan)
    np.fmax.at(highest, at, values)
    return highest


# ---------------------------------------------------------------- declared


@event("load_above_capacity_began", "load_above_capacity_ended", per="broker")
def load_changed(was: Earlier[LossLoads], now: LossLoads) -> Iterator[Occurrence]:
    """Brokers that a loss would bring above their capacity, and no longer would."""
    both, old, new = np.intersect1d(was.broker, now.broker, return_indices=True)
    for i, broker in enumerate(both.tolist()):
        before, after = int(was.is_above[old[i]]), int(now.is_above[new[i]])
        if after == 1 and before != 1:
            text = (
                f"broker {broker} would carry {now.capacity_ratio[new[i]]:.0%} of its capacity if "
                f"broker {now.lost_broker[new[i]]} were lost"
            ).replace("%", " %")
            yield Occurrence(text, kind="load_above_capacity_began", broker=broker)
        elif after == 0 and before == 1:
            text = f"broker {broker} could carry what the loss of any other brings it"
            yield Occurrence(text, kind="load_above_capacity_ended", broker=broker)


@risk(
    "broker_overloaded_after_loss",
    rank=155,
    severity="warn",
    per="broker",
    # A minute of more traffic is no reason to move partitions; rates are averages of some cycles.
    open_after_ms=300_000,
    close_after_ms=300_000,
    sentence="it would carry more than its capacity if another broker were lost",
    source="rates of log ends, committed offsets and brokers' own metrics",
    alert=Alert(
        summary="would carry more than their capacity if another broker were lost",
        description="{n} brokers of {cluster} would take more bytes from producers, or serve more "
        "to consumers, than their capacity if one other broker were lost; `kafka-twin whatif load "
        "--cluster {cluster}` says which loss.",
        wait="0s",
        keep_firing_for="10m",
    ),
)
def is_overloaded_after_loss(loads: LossLoads) -> ByBroker:
    """Unknown where what is known is below the capacity and a part is not known."""
    return ByBroker(loads.broker, loads.is_above.astype(np.int64))


@gauge(
    "capacity_after_loss_ratio",
    "Bytes a second that the broker would take from producers or serve to consumers over its "
    "capacity, after the loss of that one other broker that brings it the highest share; no "
    "series without a capacity in the configuration.",
    level="broker",
)
def capacity_after_loss_ratio(loads: LossLoads) -> ByBroker:
    """The highest share of each broker that has one."""
    return ByBroker(loads.broker, loads.capacity_ratio, named_only=True)


@gauge(
    "capacity_after_loss_lost_broker",
    "Id of the broker whose loss brings the broker that share.",
    level="broker",
)
def capacity_after_loss_lost_broker(loads: LossLoads) -> ByBroker:
    """Brokers to which no loss brings more have none."""
    has = loads.lost_broker != NO_BROKER
    return ByBroker(loads.broker[has], loads.lost_broker[has].astype(np.int64), named_only=True)
