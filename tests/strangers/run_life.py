"""The life of a cluster, for minutes: ``make soak ARGS="--life"``, and a test that CI runs."""

from __future__ import annotations

import random
import shutil
import threading
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from streaming.runtime.deadline import Deadline
from tests.strangers.groups import Writer
from tests.strangers.kinds import KINDS
from tests.strangers.life import DECK, LIVING, Life
from tests.strangers.setup import Say, strangers, twin_of
from twin.arrays.plain import counted

OTHERS: Final = ("idle", "written", "never written", "compacted", "one replica",
                 "two replicas min ISR 2", "three replicas min ISR 2")  # fmt: skip
TOPICS_OF_OTHERS: Final = 2
WRITTEN_PER_S: Final = 20.0

MORE: Final = """
[collector]
interval_ms = 2000
deadline_ms = 1500
config_interval_ms = 2000
"""
"""A step is judged two cycles after it, settings included, so half an hour has many steps."""


@dataclass(frozen=True)
class Lived:
    """The result of a life."""

    seed: int
    minutes: float
    steps: Counter[str]
    objections: list[str]
    written: int

    def lines(self) -> list[str]:
        """The result as text."""
        steps = ", ".join(f"{name} {count}" for name, count in sorted(self.steps.items()))
        return [
            f"seed {self.seed}, {self.minutes:g} minutes, {counted(self.steps.total(), 'step')}: "
            f"{steps}; {counted(self.written, 'record')} written with acks=all",
            *(f"NO: {text}" for text in self.objections),
            f"{counted(len(self.objections), 'objection')}" if self.objections else "no objection",
        ]


def run_life(
    home: Path, seed: int, minutes: float, say: Say, stop: threading.Event | None = None
) -> Lived:
    """Play steps for so long; each is judged.

    Raises:
        ScriptFailed: a step could not be done, or the cluster did not come to rest.
    """
    shutil.rmtree(home / "checkpoint", ignore_errors=True)
    say(f"seed {seed}")
    rng, steps = random.Random(seed), Counter[str]()
    with ExitStack() as stack:
        stranger = stack.enter_context(strangers(home, say, log_dirs=2, more=MORE))
        stranger.stop = stop or stranger.stop
        for kind in (*KINDS, *LIVING):
            if kind in LIVING:
                stranger.create_all(kind)
            elif kind.name in OTHERS:
                stranger.create_all(replace(kind, topics=TOPICS_OF_OTHERS))
        stack.enter_context(twin_of(stranger))
        life = Life(stranger, rng)
        life.living = {name: stranger.topics[name] for kind in LIVING for name in kind.names()}
        written = [n for kind in KINDS if kind.is_written for n in kind.names()]
        places = {name: stranger.topics[name] for name in written if name in stranger.topics}
        writer = Writer(
            bootstrap=stranger.cluster.bootstrap, topics=places, records_per_s=WRITTEN_PER_S
        )
        with writer:
            life.agree("at the start")
            end = Deadline.after_s(minutes * 60)
            while not end.is_over:
                for step in rng.sample(DECK, len(DECK)):
                    if end.is_over:
                        break
                    say(f"step {steps.total() + 1}: {(step.__doc__ or '').strip()}")
                    done = step(life)
                    say(f"        {done}")
                    steps[step.__name__] += 1
                    life.agree(f"{step.__name__} ({done})")
        lost = writer.lost()
        objections = [
            *life.objections,
            *(f"{count} acknowledged records of {key} are lost" for key, count in lost.items()),
            *(f"acks=all failed: {error}" for error in writer.errors[:3]),
        ]
    return Lived(seed, minutes, steps, objections, sum(map(len, writer.acknowledged.values())))
