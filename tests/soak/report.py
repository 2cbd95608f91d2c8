"""The report of a soak: a table for people, and one line of JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from streaming.runtime.terminal import table
from tests.soak.judge import RESULTS, Comparison, NoteResult, OwnRecord
from tests.soak.memory import JUDGED_FROM_SAMPLES, thirds
from tests.soak.past import PastResult

_MIB: Final = 1 << 20
_SHOWN: Final = 20
"""Rows that are printed of what disagrees; the JSON line has their number."""


@dataclass(frozen=True)
class Report:
    """All that a soak found. ``objections`` decide, the rest explains."""

    minutes: float
    seed: int
    faults: Counter[str]
    own: OwnRecord
    counted: int  # by the counters on /metrics
    cold_elections: int
    comparison: Comparison
    notes: NoteResult
    memory: Mapping[str, Sequence[int]]  # samples in bytes
    restarts: int
    misses: Sequence[str]  # what the twin should have said and did not
    past: PastResult

    def objections(self) -> list[str]:
        """The objections, a line each; empty if the soak is passed."""
        lines = [f"own record: {text}" for text in self.own.objections]
        if self.counted != self.own.total:
            lines.append(
                f"own record: the counters rose by {self.counted}, the API has {self.own.total}"
            )
        lines += [f"Kafka's log: {text}" for text in self.comparison.objections]
        lines += [f"noted predictions: {text}" for text in self.notes.objections]
        lines += [
            f"memory: {part} grew from {_mib(t.middle_bytes)} to {_mib(t.last_bytes)} MiB"
            for part, samples in sorted(self.memory.items())
            if len(samples) >= JUDGED_FROM_SAMPLES
            and (t := thirds(samples)) is not None
            and not t.is_flat
        ]
        lines += [f"not said: {text}" for text in self.misses]
        lines += [f"the archive: {text}" for text in self.past.objections]
        if self.restarts:
            lines.append(f"programs: {self.restarts} of them ended and were started again")
        return lines

    def text(self) -> str:
        """The tables, and what disagrees below them."""
        rows = [
            ("twin's record", self._results()),
            ("overtaken by", _counts(self.own.overtaken_by)),
            ("several away", _counts(self.own.of_several)),
            ("Kafka's log", self._log()),
            ("noted before", self._notes()),
            ("archive", self._past()),
            ("faults", _counts(self.faults)),
            ("restarts", str(self.restarts)),
        ]
        causes = sorted({cause for cause, _ in self.own.causes})
        by_cause = [
            (cause, *(self.own.causes.get((cause, result), 0) for result in RESULTS))
            for cause in causes
        ]
        parts = [
            table(("judged", f"{self.minutes:.0f} min, seed {self.seed}"), rows, right=set()),
            table(("cause", *RESULTS), by_cause, right=set(range(1, 1 + len(RESULTS)))),
            table(
                ("MiB", "first", "middle third", "last third", "growth"),
                [_memory_row(part, samples) for part, samples in sorted(self.memory.items())],
                right={1, 2, 3, 4},
            ),
        ]
        return "\n".join([*parts, *self._disagreements()])

    def _results(self) -> str:
        return (
            f"{self.own.total} leader changes: "
            + ", ".join(f"{self.own.results.get(result, 0)} {result}" for result in RESULTS)
            + f"; {self.cold_elections} cold elections"
        )

    def _log(self) -> str:
        c = self.comparison
        longest = f", the longest for {c.superseded_ms[-1]} ms" if c.superseded_ms else ""
        return (
            f"{c.kafka} leader changes, {c.paired} in the twin's record of {c.twin}, "
            f"{len(c.superseded_ms)} superseded unobserved{longest}; "
            f"{len(c.disagreements)} disagreements"
        )

    def _notes(self) -> str:
        n = self.notes
        return (
            f"{n.right} right, {len(n.wrong)} wrong, {len(n.overtaken)} overtaken, "
            f"{n.unmoved} not moved"
        )

    def _past(self) -> str:
        p = self.past
        return (
            f"{p.equal} moments as a replay has them, {p.filled} of them filled, with {p.ends} log "
            f"end offsets within the resolution; {p.unknown} unknown, of which {p.unpublished} "
            f"have no snapshot, and {p.gaps} gaps on purpose; {len(p.wrong)} wrong"
        )

    def _disagreements(self) -> list[str]:
        lines = [f"wrong: {p}" for p in self.own.wrong[:_SHOWN]]
        lines += [f"miscalled: {p}" for p in self.own.miscalled[:_SHOWN]]
        lines += [f"{d.kind}: {d}" for d in self.comparison.disagreements[:_SHOWN]]
        lines += [f"noted, wrong: {text}" for text in self.notes.wrong[:_SHOWN]]
        return lines + [f"noted, overtaken: {text}" for text in self.notes.overtaken[:_SHOWN]]

    def json(self) -> str:
        """Everything as one line."""
        c = self.comparison
        values: dict[str, Any] = {
            "minutes": self.minutes,
            "seed": self.seed,
            "faults": self.faults,
            "results": self.own.results,
            "causes": {f"{cause}/{result}": n for (cause, result), n in self.own.causes.items()},
            "overtaken_by": self.own.overtaken_by,
            "results_while_several_away": self.own.of_several,
            "counted": self.counted,
            "cold_elections": self.cold_elections,
            "kafka": {
                "leader_changes": c.kafka,
                "records": c.twin,
                "paired": c.paired,
                "superseded": len(c.superseded_ms),
                "longest_superseded_ms": max(c.superseded_ms, default=0),
                "disagreements": len(c.disagreements),
            },
            "noted": {
                "right": self.notes.right,
                "wrong": len(self.notes.wrong),
                "overtaken": len(self.notes.overtaken),
                "unmoved": self.notes.unmoved,
            },
            "memory_mib": {p: [_mib(size) for size in sizes] for p, sizes in self.memory.items()},
            "restarts": self.restarts,
            "not_said": list(self.misses),
            "past": {
                "equal": self.past.equal,
                "ends": self.past.ends,
                "filled": self.past.filled,
                "unknown": self.past.unknown,
                "gaps": self.past.gaps,
                "unpublished": self.past.unpublished,
                "wrong": len(self.past.wrong),
            },
            "objections": self.objections(),
        }
        return json.dumps(values)


def _memory_row(part: str, samples: Sequence[int]) -> tuple[object, ...]:
    sizes = thirds(samples)
    if sizes is None:
        return part, _mib(samples[0]), "-", "-", "-"
    growth = sizes.last_bytes / sizes.middle_bytes - 1
    return (
        part, _mib(samples[0]), _mib(sizes.middle_bytes), _mib(sizes.last_bytes), f"{growth:+.1%}"
    )  # fmt: skip


def _mib(size_bytes: float) -> int:
    return round(size_bytes / _MIB)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name or '?'} {n}" for name, n in sorted(counts.items())) or "-"
