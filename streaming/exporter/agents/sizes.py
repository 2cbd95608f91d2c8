"""Answers of bounded size: an agent pays for every byte that it reads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

import msgspec

MOST_BYTES: Final = 60_000
"""The largest answer as JSON: clients of agents cut or refuse what is much larger."""


class TooLargeError(Exception):
    """An answer that no shorter list makes small enough."""


def shortened(data: dict[str, Any], most_bytes: int = MOST_BYTES) -> dict[str, int]:
    """Shorten the lists of an answer in place, the largest first, from their ends.

    Returns:
        The number of items left out, by the name of their list.

    Raises:
        TooLargeError: it is too large without a list; one line says what to do.
    """
    left_out: dict[str, int] = {}
    while (size := _bytes(data)) > most_bytes:
        lists = list(_lists(data, ""))
        # The last item of a list stays while another list can be shortened.
        several = [each for each in lists if len(each[1]) > 1]
        if not lists:
            raise TooLargeError(
                f"the answer has {size} bytes, at most {most_bytes} are sent: ask for less"
            )
        name, longest = max(several or lists, key=lambda each: _bytes(each[1]))
        kept = _fitting(longest, _bytes(longest) - (size - most_bytes), bool(several))
        left_out[name] = left_out.get(name, 0) + len(longest) - kept
        del longest[kept:]
    return left_out


def _fitting(items: list[Any], most_bytes: int, keep_one: bool) -> int:
    """How many of the first items fit; fewer than all."""
    ends = accumulate(_bytes(each) + 1 for each in items)  # with its comma
    fitting = sum(end <= most_bytes for end in ends)
    return max(min(fitting, len(items) - 1), int(keep_one))


def _lists(value: Any, name: str) -> Iterator[tuple[str, list[Any]]]:
    """The lists that are not empty, by name; not those within a list of several items."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _lists(each, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and value:
        yield name, value
        if len(value) == 1:
            yield from _lists(value[0], f"{name}[0]")


def _bytes(value: Any) -> int:
    return len(msgspec.json.encode(value))
