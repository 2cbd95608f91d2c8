"""The fields of a run and of a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FILLS_NICE: Final = 5
"""The priority of a run that fills gaps: a third of the share of another one. With less it would
stand still where others keep the machine busy."""


@dataclass(frozen=True, slots=True)
class Run:
    """A process that plays tests or prepares them, and what it needs.

    Attributes:
        name: unique, a word.
        about: what it plays.
        command: ``pytest``, ``python`` or ``make`` and arguments.
        minutes: how long it takes on two quiet cores, beside other runs.
        cpu_minutes: of all its processes.
        group: the group that it belongs to; always played if it is empty.
        brokers: it starts Kafka brokers.
        alone: it shares the machine with no other run that starts brokers: what it compares with
            Kafka's behaviour changes where brokers wait for a core.
        networks: it makes networks of containers; Chromium reports an error when one comes or goes.
        browser: it starts Chromium.
        fills: it takes what other runs leave of the cores, so it may always begin.
        after: runs that have to end before.
        in_test: ``make test`` plays it as well.
    """

    name: str
    about: str
    command: tuple[str, ...]
    minutes: float
    cpu_minutes: float
    group: str = ""
    brokers: bool = False
    alone: bool = False
    networks: bool = False
    browser: bool = False
    fills: bool = False
    after: tuple[str, ...] = ()
    in_test: bool = True

    @property
    def cores(self) -> float:
        """How many cores it keeps busy."""
        return self.cpu_minutes / self.minutes

    @property
    def nice(self) -> int:
        """Its priority, as nice(1) has it."""
        return FILLS_NICE if self.fills else 0

    @property
    def is_pytest(self) -> bool:
        return self.command[0] == "pytest"

    def can_be_beside(self, other: Run) -> bool:
        """Neither disturbs the other."""
        return not (
            (self.alone and other.brokers)
            or (self.brokers and other.alone)
            or (self.networks and other.browser)
            or (self.browser and other.networks)
        )


@dataclass(frozen=True, slots=True)
class Group:
    """Tests that are played when something that they depend on has changed, or in their turn.

    Attributes:
        name: the mark of its tests.
        about: what they are about, to be read after "tests of".
        turn: the remainder of a commit's number at which they are played.
        paths: what they depend on beside what they import: beginnings of paths.
    """

    name: str
    about: str
    turn: int
    paths: tuple[str, ...]
