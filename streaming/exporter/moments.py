"""Answers about moments of the past: the same endpoints, declared for the state of that moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from streaming.exporter.answers import RefusedError
from streaming.exporter.endpoint import Endpoint, Values, now_only
from streaming.exporter.source import ViewSource, wall_clock_ms
from streaming.history.moments import AT_NAME, Moment, MomentError, checked_in, how_known, time_text
from streaming.history.past import Past, PastView
from streaming.runtime.errors import UserError
from streaming.runtime.lru_cache import LruCache

_Key = tuple[int, str | None]
"""A Unix time in milliseconds, and the topic that was asked about; None for the whole cluster."""

KEPT: Final = 8
"""Moments whose endpoints are kept: a page of the console asks several at once."""


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

    def __init__(
        self, source: ViewSource, declare: Callable[[ViewSource], Sequence[Endpoint]]
    ) -> None:
        self._source, self._declare = source, declare
        self._kept: LruCache[_Key, tuple[PastView, Mapping[str, Endpoint]]] = LruCache(KEPT)

    def ask(self, endpoint: Endpoint, request: Request, at: Moment | None, values: Values) -> Any:
        """The answer for that moment, or for now; a source that is not live has no now.

        Raises:
            RefusedError: there is no such moment.
        """
        past = self._source.past
        if past is None or (at is None and not self._source.not_live):
            return now_only(endpoint, request, at, values)
        topic = values[endpoint.of_topic] if endpoint.of_topic else None
        found, endpoints = self._at(past, at, topic)
        answer = endpoints[endpoint.path].answer(request, values)
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

    def _at(
        self, past: Past, at: Moment | None, topic: str | None
    ) -> tuple[PastView, Mapping[str, Endpoint]]:
        at_ms = moment_of(self._source, past, AT_NAME, at)
        with refusing(AT_NAME):
            key = (at_ms, None) if (at_ms, None) in self._kept else (at_ms, topic)
            return self._kept.get(key, lambda: self._declared(past, *key))

    def _declared(
        self, past: Past, at_ms: int, topic: str | None
    ) -> tuple[PastView, Mapping[str, Endpoint]]:
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
        return found, {each.path: each for each in self._declare(source)}

    def _sentence(self, found: PastView) -> str:
        what = self._source.not_live.partition("; ")[0] or "the past"
        known = how_known(found.complete, found.filled)
        return f"{what}; shown is {time_text(found.at_ms)}{known}"
