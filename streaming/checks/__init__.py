"""``kafka-twin check``: what the twin needs, and which features are unavailable.

It connects and observes once like the programs, so it finds the problems that they would have. It
creates missing bus topics and writes one tombstone, which is compacted away; nothing else is
written.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import TextIO

from streaming.checks.bus import of_bus
from streaming.checks.cluster_checks import of_cluster
from streaming.checks.finding import CheckResult
from streaming.checks.java_client import of_java_client
from streaming.checks.machine import of_machine
from streaming.checks.places import of_places
from streaming.runtime.config import Config
from twin.arrays.plain import counted


def check(config: Config, out: TextIO) -> bool:
    """Print the result of each check, and at the end whether the twin can run; return that."""
    usable, lacks = True, 0
    with ThreadPoolExecutor(1) as beside:  # its JVM starts while brokers are asked
        java_client = beside.submit(lambda: list(of_java_client(config)))
        brokers, machine = (of_cluster(config), of_bus(config)), (of_machine(), _of(java_client))
        for finding in chain(*brokers, *machine, of_places(config)):
            print(finding, file=out, flush=True)
            usable &= not (finding.without and finding.essential)
            lacks += bool(finding.without) and not finding.essential
    print(_verdict(usable, lacks), file=out, flush=True)
    return usable


def _verdict(usable: bool, lacks: int) -> str:
    if not usable:
        return "the twin cannot run: something that it needs is missing, see above"
    if not lacks:
        return "the twin can run"
    lines = counted(lacks, "line above says", "lines above say")
    return f"the twin can run; {lines} what it goes without"


def _of(findings: Future[list[CheckResult]]) -> Iterator[CheckResult]:
    yield from findings.result()
