"""Answers about moments of the past: the same endpoints, asked about the state of that moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from streaming.exporter.answers import RefusedError
from streaming.exporter.endpoint import Endpoint, Values
from streaming.exporter.view_source import ViewSource, wall_clock_ms
from streaming.history.moment import AT_NAME, Moment, MomentError, checked_in, how_known, time_text
from streaming.history.past import Past, PastView
from streaming.runtime.errors import UserError
from streaming.runtime.lru_cache import LruCache

_Key = tuple[int, str | None]
"""A Unix time in milliseconds, and the topic that was asked about; None for the whole cluster."""

NO_PAST: Final = (
    "this exporter knows the present only; kafka-twin capsule open FILE shows the past of a capsule"
)

KEPT: Final = 8
"""Moments whose states are kept: a page of the console asks several at once."""


def moment_of(source: ViewSource, past: Past, name: str, at: Moment | None) -> int:
    """The Unix time of a moment of the past, in the parameter of that name; its newest if none.

    Raises:
        RefusedError: there is no such moment.
    """
    with refusing(name):
        span = past.span
        at_ms = span.end_ms if at is None else at.at_ms(source.now_ms())
        return checked_in(at_ms, span.begin_ms, span.end_ms, wall_clock_ms())


@contextmanager
def refusing(name: str) -> Iterator[None]:
    """Turns what the past refuses into an answer that names the parameter."""
    try:
        yield
    except UserError as error:
        status = 404 if isinstance(error, MomentError) else 503
        raise RefusedError(f"{name}: {error}", status) from None


class Moments:
    """Asks endpoints about moments of a source's past."""

    def __init__(self, source: ViewSource) -> None:
        self._source = source
        self._kept: LruCache[_Key, tuple[PastView, ViewSource]] = LruCache(KEPT)

    def ask(self, endpoint: Endpoint, request: Request, values: Values) -> Any:
        """The answer for the moment among the values, or for now; what is not live has no now.

        Raises:
            RefusedError: there is no such moment.
        """
        if not endpoint.of_state:
            return endpoint.answer(self._source, request, values)
        given = {name: value for name, value in values.items() if name != AT_NAME}
        at, past = values.get(AT_NAME), self._source.past
        if past is None and at is not None:
            raise RefusedError(f"{AT_NAME}: {NO_PAST}", 404)
        if past is None or (at is None and not self._source.not_live):
            return endpoint.answer(self._source, request, given)
        found, source = self._at(past, at, given[endpoint.of_topic] if endpoint.of_topic else None)
        answer = endpoint.answer(source, request, given)
        if isinstance(answer, Response):
            return answer
        plain = msgspec.to_builtins(answer, str_keys=True)
        return {
            **plain,
            "at": time_text(found.at_ms),
            "resolution_ms": found.resolution_ms,
            "complete": found.complete,
            "filled": found.filled,
        }

    def _at(self, past: Past, at: Moment | None, topic: str | None) -> tuple[PastView, ViewSource]:
        at_ms = moment_of(self._source, past, AT_NAME, at)
        with refusing(AT_NAME):
            key = (at_ms, None) if (at_ms, None) in self._kept else (at_ms, topic)
            return self._kept.get(key, lambda: self._source_at(past, *key))

    def _source_at(self, past: Past, at_ms: int, topic: str | None) -> tuple[PastView, ViewSource]:
        found = past.view(at_ms, topic)
        source = replace(
            self._source,
            newest=lambda: found.view,
            now_ms=lambda: at_ms,
            past=None,
            asked=None,
            within=past.span,
            not_live=self._sentence(found),
        )
        return found, source

    def _sentence(self, found: PastView) -> str:
        what = self._source.not_live.partition("; ")[0] or "the past"
        known = how_known(found.complete, found.filled)
        return f"{what}; shown is {time_text(found.at_ms)}{known}"
