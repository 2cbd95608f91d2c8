"""Made-up histories of logs and their remote segments, for Kafka's classes and the twin alike."""

from __future__ import annotations

import random

from tests.oracle.oracle import Case
from twin.tables.enums import SegmentState

STARTED, FINISHED, DELETING, DELETED = (int(state) for state in SegmentState)


def epoch_history(number: int, seed: int) -> Case:
    """Epochs that are assigned, now and then out of order, and cut from both ends."""
    rng = random.Random(seed * 1_000_003 + number)
    steps: list[list[int | str]] = []
    epoch, offset = rng.randint(0, 3), rng.choice([0, 0, 10])
    for _ in range(rng.randint(1, 12)):
        roll = rng.random()
        if roll < 0.75:
            steps.append(["assign", epoch, offset])
            epoch += rng.choice([0, 1, 1, 2])
            offset += rng.choice([0, 1, 10, 20])
            if rng.random() < 0.12:  # a leader that goes back
                epoch, offset = (
                    max(0, epoch - rng.randint(1, 4)),
                    max(0, offset - rng.randint(0, 40)),
                )
        else:
            steps.append([rng.choice(["end", "start"]), rng.randint(0, offset + 5)])
    return {
        "id": number,
        "kind": "epochs",
        "steps": steps,
        "ends": [[rng.randint(-1, epoch + 3), offset + rng.randint(0, 20)] for _ in range(8)],
        "of": [rng.randint(0, offset + 10) for _ in range(8)],
    }


def tier(number: int, seed: int) -> Case:
    """Segments copied along one history, or along two that parted at an unclean election."""
    rng = random.Random(seed * 1_000_003 + number)
    log_end = rng.randint(1, 200)
    first = rng.choice([0, 0, rng.randint(0, log_end - 1)])
    history = _epochs(rng, rng.randint(0, 2), first, log_end)
    histories = [(history, log_end)]
    if rng.random() < 0.5:
        kept = rng.randint(1, len(history))
        cut = rng.randint(history[kept - 1][1], log_end)
        other_end = cut + rng.randint(1, 120)
        branch = history[:kept] + _epochs(rng, history[kept - 1][0] + 1, cut + 1, other_end)
        histories.append((branch, other_end))
    segments = [s for entries, end in histories for s in _segments(rng, entries, end)]
    for place, segment in enumerate(segments):
        segment["segment"] = place + 1
    if rng.random() < 0.2:  # the log has lost its earliest epochs
        history = history[rng.randint(0, len(history) - 1) :]
    epochs = sorted({e for entries, _ in histories for e, _ in entries} | {0})
    epochs.append(epochs[-1] + 1)
    return {
        "id": number,
        "kind": "lineage",
        "segments": segments,
        "events": _events(rng, len(segments)),
        "epochs": history,
        "logEnd": log_end,
        "localStart": rng.randint(0, log_end),
        "at": [[rng.choice(epochs), rng.randint(0, log_end + 40)] for _ in range(12)],
        "ofEpochs": epochs,
    }


def uploads(number: int, seed: int) -> Case:
    """Local segments of a leader, and what its lineage has in remote storage already."""
    rng = random.Random(seed * 1_000_003 + number)
    boundaries = sorted(rng.sample(range(200), rng.randint(1, 7)))
    highest = rng.choice([-1, rng.randint(0, 220), rng.choice(boundaries) - 1])
    log_start = rng.choice([0, boundaries[0], rng.randint(boundaries[0], boundaries[-1])])
    return {
        "id": number,
        "kind": "uploads",
        "boundaries": boundaries,
        "highest": highest,
        "logStart": log_start,
        "from": max(highest + 1, log_start),  # as RLMCopyTask.copyLogSegmentsToRemote has it
        "lastStable": rng.choice([rng.choice(boundaries), rng.randint(0, 220)]),
    }


def _epochs(rng: random.Random, epoch: int, offset: int, end: int) -> list[list[int]]:
    entries = []
    while offset < end or not entries:
        entries.append([epoch, offset])
        epoch += rng.choice([1, 1, 1, 2])
        offset += rng.randint(1, 60)
    return entries


def _segments(rng: random.Random, entries: list[list[int]], end: int) -> list[Case]:
    made: list[Case] = []
    offset = entries[0][1]
    while offset < end and len(made) < 12:
        last = min(end - 1, offset + rng.randint(0, 50))
        if rng.random() < 0.05:
            last += rng.randint(1, 20)  # beyond the log end
        below = [e for e in entries if e[1] <= offset]
        epochs = [[below[-1][0], offset], *(e for e in entries if offset < e[1] <= last)]
        made.append({"start": offset, "end": last, "epochs": epochs})
        if rng.random() < 0.15:
            offset += rng.randint(0, last - offset)  # the next one overlaps, as a new leader's may
        else:
            offset = last + 1 + (rng.randint(1, 20) if rng.random() < 0.1 else 0)
    return made


def _events(rng: random.Random, segments: int) -> list[list[int]]:
    """The events of all segments in one of many orders; some are repeated or wrong."""
    lives = []
    for segment in range(1, segments + 1):
        states = [STARTED]
        if rng.random() < 0.9:
            states.append(FINISHED)
        if rng.random() < 0.25:
            states += [DELETING, DELETED][: rng.randint(1, 2)]
        if rng.random() < 0.05:
            states.append(rng.choice(states))
        if rng.random() < 0.05:
            states.append(rng.choice([FINISHED, DELETING, DELETED]))
        lives.append([[segment, state] for state in states])
    if rng.random() < 0.4:
        return [event for life in lives for event in life]
    mixed = []
    while any(lives):
        mixed.append(rng.choice([life for life in lives if life]).pop(0))
    return mixed
