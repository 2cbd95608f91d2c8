"""The demo's scripts, by the name of ``kafka-twin demo --script``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from streaming.lab.scripts.scenarios import cold_leader, failover, slow_leader, stuck_bootstrap
from streaming.lab.scripts.stage import Stage
from streaming.lab.scripts.warm_order import warm_order

SCRIPTS: Final[dict[str, Callable[[Stage], None]]] = {
    "failover": failover,
    "cold-leader": cold_leader,
    "warm-order": warm_order,
    "stuck-bootstrap": stuck_bootstrap,
    "slow-leader": slow_leader,
}
