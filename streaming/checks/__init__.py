"""``kafka-twin check``: is everything there that the twin needs, and what does it go without?

It connects as the programs do and makes one observation, so that what it says is what they will
find. It writes nothing but the bus topics, where they are missing, and one tombstone that is
compacted away.
"""

from __future__ import annotations

from typing import TextIO

from streaming.checks.bus import of_bus
from streaming.checks.cluster import of_cluster
from streaming.checks.machine import of_machine
from streaming.runtime.config import Config


def check(config: Config, out: TextIO) -> bool:
    """Print what is there and what is missing; returns whether the twin can run at all."""
    usable = True
    for findings in (of_cluster(config), of_bus(config), of_machine()):
        for finding in findings:
            print(finding, file=out, flush=True)
            usable &= not (finding.without and finding.essential)
    return usable
