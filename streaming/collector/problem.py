"""The gaps of an observation, with their causes.

A source reports the problems of its latest round. A problem that is not reported any longer is
over. Nothing else announces its end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

from kafka.errors import AuthorizationError, KafkaTimeoutError, RequestTimedOutError, for_code

from streaming.collector.about import BROKER
from streaming.runtime.kafka import clients
from twin.declarations.table import NO_BROKER

TIMEOUT: Final = "Timeout"
NOT_OFFERED: Final = "NotOffered"
"""A request that the broker's list of versions lacks."""
_TIMEOUT_TEXT: Final = "did not answer within the deadline"
_MOST_NAMES: Final = 3
"""The maximum number of topics or groups in a text; it gives the number of the others."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One failure. ``error`` is Kafka's error name without its suffix, or a short class."""

    source: str  # the name of its ``About``
    broker: int  # NO_BROKER (-1) if it does not concern a single broker
    error: str
    text: str  # one line

    @property
    def is_denied(self) -> bool:
        """Whether a right is missing."""
        return self.error in _DENIED

    @property
    def place(self) -> tuple[str, int]:
        """The source and broker of the failure."""
        return self.source, self.broker

    @property
    def cause(self) -> tuple[str, int, str]:
        """The identity of a failure. Its text may change while it lasts."""
        return self.source, self.broker, self.error

    def at(self, source: str) -> Self:
        """The same failure, reported by this source."""
        return replace(self, source=source)

    def __str__(self) -> str:
        if self.source == BROKER.name:
            return f"broker {self.broker}: {self.text}"
        broker = f" of broker {self.broker}" if self.broker != NO_BROKER else ""
        return f"{self.source}{broker}: {self.text}"


def error_name(code: int) -> str:
    """Kafka's name of an error code, e.g. TopicAuthorizationFailed."""
    return _name(for_code(code))


def is_lasting(code: int) -> bool:
    """Whether the error does not pass by itself: Kafka does not call it retriable."""
    return code != 0 and not for_code(code).retriable


def from_code(source: str, code: int, text: str, broker: int = NO_BROKER) -> Problem:
    """The problem for an error code in Kafka's response."""
    name = error_name(code)
    return Problem(source, broker, name, f"{name}: {text}")


def from_exception(source: str, error: BaseException, broker: int = NO_BROKER) -> Problem:
    """The problem for an exception of a client."""
    if _is_timeout(error):
        return timeout(source, broker)
    return Problem(source, broker, _name(type(error)), clients.one_line(error))


def timeout(source: str, broker: int = NO_BROKER) -> Problem:
    """The problem for a response that did not arrive in time."""
    return Problem(source, broker, TIMEOUT, _TIMEOUT_TEXT)


def by_error(source: str, errors: Mapping[str, str], text: str) -> tuple[Problem, ...]:
    """One problem for each error, however many topics or groups have it.

    Args:
        source: the source that reports the errors.
        errors: the error name of each topic or group.
        text: what is unknown for those.
    """
    return tuple(
        Problem(source, NO_BROKER, error, f"{error}: {text} ({some_names(topics)})")
        for error in sorted(set(errors.values()))
        for topics in [[topic for topic, name in errors.items() if name == error]]
    )


def some_names(names: Collection[str]) -> str:
    """The first few names, and the number of the others."""
    more = len(names) - _MOST_NAMES
    return ", ".join(sorted(names)[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _name(kind: type[BaseException]) -> str:
    return kind.__name__.removesuffix("Error")


def _is_timeout(error: BaseException) -> bool:
    """Whether the error is a timeout, or was caused by one."""
    kinds = (TimeoutError, KafkaTimeoutError, RequestTimedOutError)
    return any(isinstance(e, kinds) for e in (error, error.__cause__, error.__context__))


def _subclasses(kind: type[Exception]) -> Iterable[type[Exception]]:
    subclass: type[Exception]
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


_DENIED: Final = frozenset(_name(kind) for kind in _subclasses(AuthorizationError))
