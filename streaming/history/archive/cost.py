"""The size of an archive after a day, estimated from figures of ``make bench ARGS=history``."""

from __future__ import annotations

from typing import Final

_WHOLE_BYTES: Final = 34.0
"""Of a replica each hour: as rows, as the messages of the bus, and three updates of these."""

_MEASURED_BYTES: Final = 2.1
"""Of a replica each time that measurements are written, while 60 % of the partitions are written
and something happens every 17 s. A cluster where less happens takes less."""

_HOUR_BYTES: Final = 300_000
"""Of the files of an hour, however small the cluster."""

_DAY_MS: Final = 86_400_000


def bytes_a_day(replicas: int, measurements_ms: int) -> int:
    """About how many bytes a day of the archive has, groups and remote segments not counted.

    Args:
        replicas: how many the cluster has.
        measurements_ms: how often measurements are written.
    """
    a_replica = 24 * _WHOLE_BYTES + _DAY_MS / measurements_ms * _MEASURED_BYTES
    return int(replicas * a_replica + 24 * _HOUR_BYTES)
