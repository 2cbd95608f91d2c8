"""How many messages a batch of several clusters takes.

Spark takes of each partition by what waits there, and one message at least. So with a low limit a
cluster that floods, or comes back after an hour, takes little of the others' time. But where all
have much to read, after an outage of the query or with taps, a low limit would let them wait: then
it grows, and once batches have been small for a while it is as before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import structlog

from streaming.bus.bus_topics import topics
from streaming.bus.shards import SHARDS_FOR_CORES
from streaming.runtime.config import Config

LEAST: Final = 10
"""Messages, where so many wait: a step of each takes less time together than the batch itself."""

CYCLES_OF_LARGE: Final = 2
MOST_CYCLES_OF_LARGE: Final = 10
"""Of the largest one, in a batch of large clusters."""

GROWTH: Final = 4
"""Each growth is a start of the query."""

GROWS_AFTER_BATCHES: Final = 3
IS_LOWERED_AFTER_BATCHES: Final = 600

log = structlog.get_logger("query")


def lowest(configs: Sequence[Config]) -> int:
    """The limit at first: a cycle of all, of large clusters two of one; of one cluster what is
    configured."""
    configured = configs[0].query.max_offsets_per_trigger
    if len(configs) == 1:
        return configured
    if largest := _shards_of_large(configs):
        return max(largest, min(configured, CYCLES_OF_LARGE * largest))
    cycle = sum(config.bus.shards for config in configs)
    return max(cycle, min(configured, LEAST))


def highest(configs: Sequence[Config]) -> int:
    """The limit after all have waited for long: what is configured, and of large clusters less.

    The driver gets the reports of a batch as one text: that of two cycles of 20 clusters with 200
    brokers and 16 shards filled a heap of 2 GB, and the query stood still.
    """
    configured = configs[0].query.max_offsets_per_trigger
    if len(configs) > 1 and (largest := _shards_of_large(configs)):
        configured = min(configured, MOST_CYCLES_OF_LARGE * largest)
    return max(lowest(configs), configured)


def _shards_of_large(configs: Sequence[Config]) -> int:
    """The number of shards of the largest cluster where all are large, else 0."""
    shards = [config.bus.shards for config in configs]
    return max(shards) if min(shards) >= SHARDS_FOR_CORES else 0


class BatchLimit:
    """The limit of a query, by the reports of its batches."""

    def __init__(self, configs: Sequence[Config], before: int = 0) -> None:
        """Begin with the lowest one for these clusters, or with that of ``before``, when they were
        others."""
        self.configs = configs
        self._lowest, self._highest = lowest(configs), highest(configs)
        self.most = max(self._lowest, min(before, self._highest))
        self._topics = [topics(config).observations for config in configs]
        self._cut = self._calm = 0  # batches in a row

    def has_changed(self, progress: Mapping[str, Any]) -> bool:
        """Whether the batches after this one are to have another limit, which is ``most`` then."""
        waiting = sum(_left_out(progress, topic) > 0 for topic in self._topics)
        self._cut = self._cut + 1 if waiting > len(self._topics) / 2 else 0
        is_calm = not waiting and progress["numInputRows"] <= self._lowest
        self._calm = self._calm + 1 if is_calm else 0
        before = self.most
        if self._cut >= GROWS_AFTER_BATCHES:
            self.most, self._cut = min(GROWTH * before, self._highest), 0
        elif self._calm >= IS_LOWERED_AFTER_BATCHES:
            self.most, self._calm = self._lowest, 0
        if self.most == before:
            return False
        log.info("another limit", messages_a_batch=self.most, before=before,
                 clusters_that_wait=waiting)  # fmt: skip
        return True


def _left_out(progress: Mapping[str, Any], topic: str) -> int:
    """Messages of a topic that were there when the batch began, and that it did not take."""
    return sum(
        max(0, offset - (source["endOffset"] or {}).get(topic, {}).get(number, offset))
        for source in progress["sources"]
        for number, offset in ((source.get("latestOffset") or {}).get(topic) or {}).items()
    )
