"""How many shards a deployment has: the number that is set, else one that fits the cluster's size.

The collector chooses it at the first start. Each frame on the bus has it, so it is kept there, and
the other programs take it from there. A shard costs the same in each cycle however small it is, and
shards of more than 40 000 replicas do not fit into one message.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from streaming.bus.bus_topics import check_shards, recorded_shards
from streaming.runtime.config import Config
from twin.arrays.plain import counted

REPLICAS_A_SHARD: Final = 2_500
"""Of small clusters, so that a cluster may grow to sixteen times its size."""

SHARDS_FOR_CORES: Final = 16
"""More would only be more work, as long as shards fit into a message."""

MOST_REPLICAS_A_SHARD: Final = 40_000
MOST_SHARDS: Final = 4_096

TOO_MANY: Final = 4
"""So many times the shards that fit are said by ``check``."""

_LOOK_EVERY_S: Final = 1.0

log = structlog.get_logger("bus")


def shards_for(replicas: int) -> int:
    """The number of shards that fits a cluster of that many replicas."""
    few = min(-(-replicas // REPLICAS_A_SHARD), SHARDS_FOR_CORES)
    return min(max(few, -(-replicas // MOST_REPLICAS_A_SHARD), 1), MOST_SHARDS)


def why_unfit(shards: int, replicas: int) -> str:
    """Why another number of shards would be better, in a sentence; empty while that one fits."""
    fits = shards_for(replicas)
    of = f"{counted(replicas, 'replica', 'replicas')}: {fits} would fit"
    if shards * MOST_REPLICAS_A_SHARD < replicas:
        return f"too few for {of}; states are sent whole and in parts"
    if shards > TOO_MANY * fits:
        return f"more than needed for {of}; each costs CPU time in every cycle"
    return ""


def with_shards(config: Config, shards: int) -> Config:
    """The configuration with that number of shards."""
    return msgspec.structs.replace(config, bus=msgspec.structs.replace(config.bus, shards=shards))


def with_known_shards(config: Config) -> Config | None:
    """The configuration with its number of shards; None if it was neither set nor chosen yet.

    For programs that write to the bus.

    Raises:
        BusError: the bus cannot be reached, or it was written with another number than is set.
    """
    if config.bus.shards:
        check_shards(config)
        return config
    recorded = recorded_shards(config)
    return None if recorded is None else with_shards(config, recorded)


def with_shards_of_snapshots(config: Config) -> Config | None:
    """The same for readers, which refuse snapshots of another number of shards.

    Raises:
        BusError: the bus cannot be reached.
    """
    if config.bus.shards:
        return config
    recorded = recorded_shards(config, snapshots_only=True)
    return None if recorded is None else with_shards(config, recorded)


def await_shards(
    config: Config, stop: threading.Event, alive: Callable[[], None] = lambda: None
) -> Config | None:
    """The same; waits for the collector's first observation. None if stopped before.

    Args:
        config: of the program.
        stop: ends the waiting.
        alive: called again and again meanwhile.

    Raises:
        BusError: as above.
    """
    is_said = False
    while not stop.is_set():
        if (known := with_known_shards(config)) is not None:
            return known
        if not is_said:
            log.info("waiting", what="the first observation", why="bus.shards is not set, and the "
                     "collector has not chosen it yet")  # fmt: skip
            is_said = True
        alive()
        stop.wait(_LOOK_EVERY_S)
    return None
