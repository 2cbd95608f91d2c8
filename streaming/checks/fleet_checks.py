"""``kafka-twin check`` of several clusters: a line of each, the worst first.

They are checked at the same time, each within a deadline, so that one that hangs holds no other.
What does not keep a twin from running is counted; ``--cluster`` lists it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import Final, TextIO

from streaming.checks.bus import of_bus
from streaming.checks.cluster_checks import of_cluster
from streaming.checks.finding import CheckResult
from streaming.checks.machine import of_machine
from streaming.checks.places import of_places
from streaming.runtime.config import Config
from streaming.runtime.configuration.loading import Read
from streaming.runtime.deadline import Deadline
from twin.arrays.plain import counted

AT_ONCE: Final = 16
_WITHIN_S: Final = 60.0
_DEADLINES: Final = 10
"""Of the collector: so many follow each other where a cluster answers, but slowly."""

_LOOK_EVERY_S: Final = 0.05


def check_all(clusters: Read, out: TextIO) -> bool:
    """Print a line of each cluster, and what this machine lacks; return whether all can run.

    Args:
        clusters: of the configuration, also those that cannot be used.
        out: takes the lines.
    """
    refused = {
        name: [CheckResult(str(error), "everything", essential=True)]
        for name, error in clusters.refused.items()
    }
    found = [*refused.items(), *_checked([*clusters.usable.values()])]
    for name, findings in sorted(found, key=lambda each: (_rank(each[1]), each[0])):
        print(f"{name}: {_verdict(findings)}", file=out)
    if common := next(iter(clusters.usable.values()), None):
        for finding in chain(of_machine(), of_places(common)):
            if finding.without:
                print(finding, file=out)
    able = sum(_is_able(findings) for _, findings in found)
    print(
        f"{able} of {len(found)} clusters can be run; check --cluster NAME lists all of one",
        file=out,
    )
    return able == len(found)


def _checked(configs: list[Config]) -> Iterator[tuple[str, list[CheckResult]]]:
    """The findings of each cluster, in the order in which they are there."""
    waiting, running = deque(configs), set[_Check]()
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            running.add(_Check(waiting.popleft()))
        ended = {check for check in running if check.is_over}
        running -= ended
        yield from ((check.name, check.findings()) for check in ended)
        time.sleep(_LOOK_EVERY_S)


class _Check:
    """The check of a cluster, in a thread that is left behind at the deadline."""

    def __init__(self, config: Config) -> None:
        self.name = config.cluster.name
        self._config, self._found = config, list[CheckResult]()
        self._within_s = _WITHIN_S + _DEADLINES * config.collector.deadline_ms / 1_000
        self._deadline = Deadline.after_s(self._within_s)
        self._bug: Exception | None = None
        self._thread = threading.Thread(target=self._work, name=f"check {self.name}", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive() or self._deadline.is_over

    def findings(self) -> list[CheckResult]:
        if self._bug is not None:
            raise self._bug
        found = [*self._found]
        if self._thread.is_alive():
            late = f"an end of the check within {self._within_s:.0f} s"
            found.append(CheckResult(late, "everything", essential=True))
        return found

    def _work(self) -> None:
        try:
            for finding in chain(of_cluster(self._config), of_bus(self._config)):
                self._found.append(finding)
        except Exception as error:  # ``findings`` raises it where it is shown
            self._bug = error


def _is_able(findings: list[CheckResult]) -> bool:
    return not any(finding.without and finding.essential for finding in findings)


def _rank(findings: list[CheckResult]) -> tuple[bool, int]:
    """The lowest first: what cannot run, then what goes without most."""
    is_able = _is_able(findings)
    return is_able, -sum(bool(finding.without) for finding in findings) if is_able else 0


def _verdict(findings: list[CheckResult]) -> str:
    """Whether the twin of a cluster can run, and the first thing that is missing."""
    lacks = [finding for finding in findings if finding.without]
    if not lacks:
        return "can run"
    first = next((finding for finding in lacks if finding.essential), lacks[0])
    named = str(first).splitlines()[0]
    if first.essential:
        return f"cannot run: {named}"
    return f"can run, but goes without {counted(len(lacks), 'thing')}; {named}"
