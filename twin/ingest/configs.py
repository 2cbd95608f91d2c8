"""Settings of topics and of the cluster."""

from __future__ import annotations

import numpy as np

from twin.arrays.columns_in_arrow import to_numpy
from twin.declarations.declare import expiry, ingest
from twin.declarations.signature import Cycle
from twin.engine.frames import Frame
from twin.engine.rows import refuse_duplicates
from twin.engine.shard_state import ShardState
from twin.tables.enums import CLUSTER_WIDE
from twin.tables.observations import ConfigsFrame
from twin.tables.state import Configs, Topics


@ingest(ConfigsFrame)
def take_configs(state: ShardState, frame: Frame) -> ShardState:
    """Replace the configs of each topic of the frame."""
    columns = {name: to_numpy(frame.rows.column(name)) for name in frame.rows.column_names}
    refuse_duplicates(columns["topic"], "topic")
    at_ms = np.full(len(columns["topic"]), frame.header.observed_at_ms)
    news = Configs(**columns, configured_at_ms=at_ms)
    return state.with_tables(state[Configs].with_rows(news, "topic"))


@expiry
def used_configs(configs: Configs, topics: Topics, cycle: Cycle) -> Configs:
    """Drop the configs of topics that had no partition in a whole listing made since."""
    old = configs.configured_at_ms < cycle.listed_whole_at_ms
    if not old.any() or len(configs.topic) <= len(topics.topic) + 1:
        return configs
    return configs.pick(~old | np.isin(configs.topic, [*topics.topic, CLUSTER_WIDE]))
