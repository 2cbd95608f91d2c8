"""Room on disks in sentences, made of the plain data alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from streaming.questions.answer import listed
from streaming.runtime.quantities import size_text, utc_text
from twin.arrays.plain import counted

_MOST_LINES: Final = 5
"""Brokers of which a sentence is said; of the others, how many they are."""

_SAME_MS: Final = 60_000
"""Two bounds that are closer are one time."""


def room_lines(
    rooms: Sequence[Mapping[str, Any]], where: Callable[[int], str] = "on broker {}".format
) -> Iterator[str]:
    """A sentence on each of the worst brokers, and one on those where it fits for good.

    A broker that is alone has its own, whatever the verdict. ``where``: puts an id into words.
    """
    fits = [each["broker"] for each in rooms if each["room"] == "fits"]
    unseen = [each["broker"] for each in rooms if each["why"] == "disks"]
    alone = len(rooms) == 1
    summed = () if alone else {*fits, *unseen}
    worse = [each for each in rooms if each["broker"] not in summed]
    worse.sort(key=lambda each: (_ORDER[each["room"]], each["full_at_earliest_ms"] or 0))
    for each in worse[:_MOST_LINES]:
        place = where(each["broker"])
        yield f"{place[0].upper()}{place[1:]} {room_words(each)}."
    if len(worse) > _MOST_LINES:
        yield f"So it is on {counted(len(worse) - _MOST_LINES, 'broker')} more."
    if alone:
        return
    if unseen:
        who = "broker" if len(unseen) == 1 else "brokers"
        yield (
            f"Nobody knows whether it fits on {who} {listed(unseen)}: disks of unknown size, or "
            "not listed lately."
        )
    if fits:
        yield f"It fits on {'broker' if len(fits) == 1 else 'brokers'} {listed(fits)}."


def held_lines(rooms: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What lost brokers have on their disks, by class."""
    for each in rooms[:_MOST_LINES]:
        held = each["held"]
        if all(held[f"{name}_bytes"] is not None for name in _CLASSES):
            parts = [
                f"{size_text(held[f'{name}_bytes'])} {what}"
                for name, what in _CLASSES.items()
                if held[f"{name}_bytes"]
            ]
            if parts:
                yield f"Broker {each['broker']} has {', '.join(parts)}."


_CLASSES: Final = {
    "tiered": "that remote storage has too",
    "waiting": "that wait for their upload",
    "untiered": "of topics that are not tiered",
    "unjudged": "of which that is unknown",
}

_ORDER: Final = {"does_not_fit": 0, "unknown": 1, "fits_until": 2, "fits": 3}


def room_words(room: Mapping[str, Any]) -> str:
    """The verdict on a broker, and the bytes that it follows from."""
    verdict, why = room["room"], room["why"]
    if why == "disks":
        return (
            "nobody knows whether it fits, since the disks are of unknown size or not listed "
            f"lately: {_takes(room)}"
        )
    of = f"{_takes(room)}, and {size_text(room['free_bytes'])} are free in {room['log_dir']}"
    if verdict == "does_not_fit":
        return f"it does not fit: {of}"
    if verdict == "fits_until":
        return f"it fits until {_until(room)}: {of}"
    if verdict == "fits":
        return f"it fits: {of}"
    if why == "directory":
        return (
            "nobody knows whether it fits, since that depends on the directory that Kafka chooses "
            f"for each replica: {of}"
        )
    if why == "sizes":
        unknown = counted(room["unknown_replicas"], "replica is", "replicas are")
        return f"nobody knows whether it fits, since {unknown} of unknown size: {of}"
    return f"nobody knows until when it fits, since the growth of logs is not known yet: {of}"


def _takes(room: Mapping[str, Any]) -> str:
    """What it takes, with what comes beside it, and what goes before."""
    text = f"it takes {size_text(room['needed_bytes'])}"
    if room["under_way_bytes"]:
        text += f" beside {size_text(room['under_way_bytes'])} under way"
    if room["most_bytes"] < room["needed_bytes"] + room["under_way_bytes"]:
        text += f", up to {size_text(room['most_bytes'])} of it on one volume"
    if room["freed_bytes"]:
        text += f" after {size_text(room['freed_bytes'])} are deleted"
    return text


def _until(room: Mapping[str, Any]) -> str:
    earliest, latest = room["full_at_earliest_ms"], room["full_at_latest_ms"]
    if latest is None:
        return f"{utc_text(earliest)} at the earliest, or for good"
    if latest - earliest < _SAME_MS:
        return utc_text(earliest)
    return f"{utc_text(earliest)} at the earliest, {utc_text(latest)} at the latest"
