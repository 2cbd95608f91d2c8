"""The last lines of all runs: what holds, what was not asked, and what failed for which reason."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tests.runner.again import Again
from tests.runner.declared import Run
from tests.runner.due import Due
from tests.runner.playing import Ended, counts
from tests.runner.schedule import NO_TIME, Played

PACKAGES: Final = {
    "chromium": "chromium", "promtool": "prometheus", "amtool": "prometheus-alertmanager",
    "etcd": "etcd-server", "javac": "openjdk-17-jdk-headless",
}  # fmt: skip
"""Programs that tests look for, and Debian's package of each."""

_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)(?: - (.+))?$", re.MULTILINE)
_SKIPPED: Final = re.compile(r"^SKIPPED \[(\d+)\] [^:]+(?::\d+)?: (.*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What holds after all runs.

    Attributes:
        failed: runs that failed, and tests that did, by run.
        in_turn: of these, runs of a group that nothing of the change touches.
        unproved: runs that are always played and did not end: what was asked is not known.
    """

    failed: Mapping[str, tuple[str, ...]]
    in_turn: frozenset[str]
    unproved: frozenset[str]

    @property
    def is_good(self) -> bool:
        return not self.failed and not self.unproved


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds that passed, and CPU seconds of the whole machine meanwhile."""

    wall_s: float
    cpu_s: float


def verdict(played: Played, again: Again, due: Iterable[Due], runs: Iterable[Run]) -> Verdict:
    """What holds. A run that no time was left for has failed only if tests of it have."""
    failed: dict[str, tuple[str, ...]] = {}
    unproved = set()
    for each in played.ended:
        tests = tuple(test for test in each.failed if test not in again.passed)
        only_failed_tests = each.code == 1 and each.failed and not each.why
        if tests or not (each.is_good or only_failed_tests or each.why == NO_TIME):
            failed[each.run.name] = tests
        elif each.why and not each.run.group:
            unproved.add(each.run.name)
    group_of = {run.name: run.group for run in runs}
    unproved |= {name for name in played.left_out if not group_of[name]}
    touched = {each.group for each in due if each.changed}
    in_turn = {name for name in failed if group_of[name] and group_of[name] not in touched}
    return Verdict(failed, frozenset(in_turn), frozenset(unproved))


def lines(played: Played, again: Again, found: Verdict, took: Took) -> Iterator[str]:
    """The last lines, without the dearest files."""
    yield "\n--- all runs ---"
    for each in played.ended:
        yield (
            f"{each.run.name:<12} {each.wall_s / 60:5.1f} min {each.cpu_s / 60:6.1f} CPU min  "
            f"{each.why or each.last_line}"
        )
    yield (
        f"{'all':<12} {took.wall_s / 60:5.1f} min {took.cpu_s / 60:6.1f} CPU min  "
        "of this machine, containers and whatever else it did included"
    )
    yield from _skipped(played.ended)
    unfinished = {e.run.name: e.why for e in played.ended if e.why == NO_TIME}
    if left := played.left_out | unfinished:
        yield "\n--- left out: not asserted by this run ---"
        for name, why in left.items():
            yield f"  {name}: {why}; make play ARGS={name}"
    reasons = _reasons(played.ended)
    if again.passed:
        yield "\n--- failed, and passed when played again, alone ---"
        yield from (_line(test, reasons) for test in sorted(again.passed))
    if again.not_tried:
        yield "\n--- failed, and not played again: too many, or no time ---"
        yield from (_line(test, reasons) for test in sorted(again.not_tried))
    of_the_change = {n: tests for n, tests in found.failed.items() if n not in found.in_turn}
    if of_the_change:
        yield "\n--- failed ---"
        yield from _failures(of_the_change)
    if found.in_turn:
        yield "\n--- failed in its turn: nothing that it depends on has changed ---"
        yield from _failures({name: found.failed[name] for name in sorted(found.in_turn)})
    if found.unproved:
        yield f"\nnot proved: {', '.join(sorted(found.unproved))}"
    yield _sums(played.ended, again)


def _reasons(ended: Iterable[Ended]) -> dict[str, str]:
    """Why each test failed that did, in pytest's words."""
    return {
        test: why
        for each in ended
        for test, why in _FAILED.findall(each.log.read_text(errors="replace"))
    }


def _line(test: str, reasons: Mapping[str, str]) -> str:
    why = reasons.get(test)
    return f"  {test}: {why}" if why else f"  {test}"


def _failures(failed: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for name, tests in failed.items():
        yield f"  {name}"
        yield from (f"    {test}" for test in tests)


def _skipped(ended: Iterable[Ended]) -> Iterator[str]:
    """What was skipped and why, and what to install."""
    reasons: Counter[str] = Counter()
    for each in ended:
        for count, why in _SKIPPED.findall(each.log.read_text(errors="replace")):
            reasons[why] += int(count)
    yield "\n--- skipped ---"
    yield from (f"{count:5} tests: {why}" for why, count in reasons.most_common())
    if not reasons:
        yield "nothing"
        return
    packages = [package for name, package in PACKAGES.items() if shutil.which(name) is None]
    if packages:
        install = "apt-get install -y --no-install-recommends"
        yield f"to play them (Debian): {install} {' '.join(packages)}"


def _sums(ended: Iterable[Ended], again: Again) -> str:
    """The closing line, as runners of tests have it."""
    sums: Counter[str] = Counter()
    for each in ended:
        if each.run.is_pytest:
            sums.update(counts(each.last_line))
    late = len(again.passed)
    failed = sums["failed"] + sums["error"] - late
    return f"\n{sums['passed'] + late} passed, {failed} failed, {sums['skipped']} skipped"
