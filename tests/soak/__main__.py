"""``make soak``: play seeded faults on brokers for minutes, and judge the twin's record.

With --life no faults are played but what happens to any cluster in its life: topics come, go and
change, replicas move, brokers are restarted; after each step the twin is compared with Kafka.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import threading
import time
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafka.errors import KafkaError

from streaming.bus.bus_topics import shard_of
from streaming.lab.scripts.stage import ScriptFailed
from streaming.runtime.deadline import Deadline
from streaming.runtime.errors import UserError
from streaming.runtime.kafka import clients
from streaming.runtime.stop import on_stop_signal
from tests.soak import controller_log
from tests.soak.faults import SEVERAL_AWAY, deck
from tests.soak.fleet import Beside
from tests.soak.gaps import Gaps
from tests.soak.judge import NoteResult, Span, compare_all, judge_note, own_record
from tests.soak.memory import MemorySampler
from tests.soak.past import judge_past, save_past
from tests.soak.record import Prediction, Recorder, observed_ms
from tests.soak.report import Report
from tests.soak.setup import Soak, soaking
from tests.strangers.run_life import run_life

HOME: Final = Path(".kafka-twin/soak")
PAUSE_S: Final = 8.0
"""Between rest and the next fault, and before the record is read: a few observations."""


@dataclass(frozen=True)
class Recorded:
    """The records made while the cluster ran."""

    span: Span
    faults: Counter[str]
    predictions: list[Prediction]
    counted: int
    cold_elections: int
    observed_ms: dict[int, list[int]]  # by shard


def main() -> int:
    """Run a soak; the exit code is 1 if a judge objects or the soak failed."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="how long faults are played")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    parser.add_argument("--home", type=Path, default=HOME, help="removed first, kept afterwards")
    parser.add_argument("--brokers", type=int, choices=(3, 5), default=5,
                        help="1 to 3 are controllers too; 5 by default")  # fmt: skip
    parser.add_argument("--fleet", action="store_true",
                        help="the programs watch two other clusters too, which change")  # fmt: skip
    parser.add_argument("--life", action="store_true", help="the life of a cluster, without faults")
    chosen = parser.parse_args()
    clients.quiet()  # brokers are lost here on purpose
    stop = threading.Event()
    try:
        with on_stop_signal(stop):
            if chosen.life:
                lived = run_life(
                    chosen.home.resolve(), chosen.seed, chosen.minutes, _Progress(), stop
                )
                print("\n".join(lived.lines()), flush=True)
                return 1 if lived.objections else 0
            report = soak(
                chosen.home.resolve(),
                chosen.seed,
                chosen.minutes,
                chosen.brokers,
                stop,
                is_fleet=chosen.fleet,
            )
    except (UserError, KafkaError, OSError) as error:
        print(f"soak: {'ended by a signal' if stop.is_set() else error}", file=sys.stderr)
        return 1
    print(report.text())
    print(report.json(), flush=True)
    for text in (objections := report.objections()):
        print(f"NO: {text}")
    print("no objection" if not objections else f"{len(objections)} objections")
    return 1 if objections else 0


def soak(
    home: Path, seed: int, minutes: float, brokers: int, stop: threading.Event, *, is_fleet: bool
) -> Report:
    """Play faults for so long, and judge."""
    shutil.rmtree(home / "checkpoint", ignore_errors=True)
    shutil.rmtree(home / "logs", ignore_errors=True)
    shutil.rmtree(home / "archive", ignore_errors=True)
    say = _Progress()
    say(f"seed {seed}")
    capsule = home / "soak.capsule"
    with soaking(home, seed, minutes, brokers, say, stop, is_fleet=is_fleet) as running:
        running.await_rest()
        say("all replicas are in sync; the faults begin")
        with (
            MemorySampler(running.pids) as memory,
            Gaps(pids=running.pids, minutes=minutes, say=say) as gaps,
            beside(running, minutes) as fleet,
        ):
            recorded = _recorded(running, minutes, capsule)
        if fleet is not None:
            say(fleet.summary())
            running.misses.extend(fleet.misses)
        restarts = sum(program.restarts for program in running.programs)
        say("stopping")
    say("comparing random moments of the archive with a replay")
    past = judge_past(running.config, capsule, running.rng, gaps.spans)
    log = controller_log.read(running.cluster.layout)
    keys = log.first_leader.keys()
    shards = running.config.bus.shards
    return Report(
        minutes,
        seed,
        recorded.faults,
        own_record(recorded.predictions, running.spans_of_several),
        recorded.counted,
        recorded.cold_elections,
        compare_all(
            log.first_leader,
            log.changes,
            recorded.predictions,
            {key: recorded.observed_ms[shard_of(key[0], shards)] for key in keys},
            recorded.span,
        ),
        sum((judge_note(note, log.changes) for note in running.notes), NoteResult()),
        memory.samples,
        restarts,
        running.misses,
        past,
    )


def beside(running: Soak, minutes: float) -> AbstractContextManager[Beside | None]:
    """What looks at the other clusters of a fleet; nothing without a fleet."""
    if running.others is None:
        return nullcontext()
    url = f"http://127.0.0.1:{running.config.exporter.port}"
    return Beside(url=url, clusters=running.others, minutes=minutes, say=running.stage.say)


def _recorded(running: Soak, minutes: float, capsule: Path) -> Recorded:
    """Play faults until the time is over, and read the record."""
    recorder = Recorder(running.stage.exporter)
    counted, cold = recorder.counted(), recorder.cold_elections()
    from_ms = time.time_ns() // 1_000_000
    with recorder:
        faults = _play(running, Deadline.after_s(minutes * 60))
        running.await_rest()
        _pause(running)
    to_ms = time.time_ns() // 1_000_000
    recorder.read()
    span = Span(from_ms, to_ms)
    newly_counted = recorder.counted() - counted
    newly_cold = recorder.cold_elections() - cold
    running.await_archived(to_ms)
    save_past(running.config, span, capsule)
    return Recorded(
        span,
        faults,
        [p for p in recorder.predictions() if span.from_ms < p.at_ms <= span.to_ms],
        newly_counted,
        newly_cold,
        observed_ms(running.config),
    )


def _play(running: Soak, end: Deadline) -> Counter[str]:
    """All faults of the deck in random order, again and again; returns how often each came."""
    played: Counter[str] = Counter()
    faults = deck(len(running.cluster.layout.ids))
    while True:
        for fault in running.rng.sample(faults, len(faults)):
            if end.is_over:
                return played
            running.stage.say(f"fault {played.total() + 1}: {(fault.__doc__ or '').strip()}")
            from_ms = time.time_ns() // 1_000_000
            fault(running)
            played[fault.__name__] += 1
            running.await_rest()
            if fault in SEVERAL_AWAY:
                running.spans_of_several.append(Span(from_ms, time.time_ns() // 1_000_000))
            _pause(running)


def _pause(running: Soak) -> None:
    if running.stage.stop.wait(PAUSE_S):
        raise ScriptFailed("the soak was ended")


class _Progress:
    """Prints each line with the seconds since the start."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, line: str) -> None:
        print(f"[{time.monotonic() - self._began:7.1f} s] {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
