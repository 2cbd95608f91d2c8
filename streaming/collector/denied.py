"""Topics that a source may not read: it does not request them in every cycle."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from streaming.collector.problem import Problem, by_error, error_name

RETRY_DENIED_MS: Final = 60_000
"""A newly granted right is noticed after this time at the latest."""


@dataclass(frozen=True, slots=True)
class _Denial:
    error: str
    retry_at_s: float


class DeniedTopics:
    """Topics that were refused by their last response, and when to try again."""

    def __init__(self, retry_ms: int = RETRY_DENIED_MS) -> None:
        self._retry_s = retry_ms / 1_000
        self._refusals: dict[str, _Denial] = {}

    def add(self, topic: str, error_code: int) -> None:
        """Note that the topic was refused with this error."""
        retry_at_s = time.monotonic() + self._retry_s
        self._refusals[topic] = _Denial(error_name(error_code), retry_at_s)

    def discard(self, topic: str) -> None:
        """Note that the topic was read."""
        self._refusals.pop(topic, None)

    def keep_only(self, topics: Collection[str]) -> None:
        """Forget all other topics: they are deleted, or need not be read any more."""
        self._refusals = {t: r for t, r in self._refusals.items() if t in topics}

    def waiting(self) -> set[str]:
        """The topics that need not be requested now."""
        now_s = time.monotonic()
        return {topic for topic, refusal in self._refusals.items() if refusal.retry_at_s > now_s}

    def problems(self, source: str, text: str) -> tuple[Problem, ...]:
        """One problem for each error; ``text`` says what is unknown for such topics."""
        return by_error(source, {t: r.error for t, r in self._refusals.items()}, text)

    def __bool__(self) -> bool:
        return bool(self._refusals)
