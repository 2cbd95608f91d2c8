"""Metrics of brokers whose JMX exporters are scraped."""

from __future__ import annotations

import numpy as np

from twin.arrays import keys
from twin.arrays.columns_in_arrow import to_numpy
from twin.declarations.declare import expiry, ingest
from twin.engine.frames import Frame
from twin.engine.rows import refuse_duplicates
from twin.engine.shard_state import ShardState
from twin.tables.observations import BrokerMetricsFrame
from twin.tables.state import BrokerMetrics, Brokers


@ingest(BrokerMetricsFrame)
def take_broker_metrics(state: ShardState, frame: Frame) -> ShardState:
    """Keep the newest measurements of each broker."""
    columns = {name: to_numpy(frame.rows.column(name)) for name in frame.rows.column_names}
    refuse_duplicates(columns["broker"], "broker")
    news, table = BrokerMetrics(**columns), state[BrokerMetrics]
    last_ms = keys.look_up(
        table.broker.astype(np.int64), table.measured_at_ms, news.broker.astype(np.int64)
    )
    is_new = news.measured_at_ms > last_ms
    if not is_new.any():
        return state
    return state.with_tables(table.with_rows(news.pick(is_new), "broker"))


@expiry
def metrics_of_listed(metrics: BrokerMetrics, brokers: Brokers) -> BrokerMetrics:
    """Drop the metrics of brokers that the cluster does not list any more."""
    listed = np.isin(metrics.broker, brokers.broker)
    if listed.all() or not len(brokers.broker):
        return metrics
    return metrics.pick(listed)
