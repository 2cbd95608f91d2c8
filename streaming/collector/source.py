"""A source: a part of the collector that asks brokers, in one file.

``read`` returns the source's reading of a cycle. It names in its signature what it needs: readings
of earlier sources, by their classes, and the connections (``CycleContext``) if it sends requests
itself. A source that asks every broker in each cycle also has ``requests``: all such sources share
one round trip, and ``read`` gets the responses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from streaming.collector.about import About
from streaming.collector.denied import RETRY_DENIED_MS
from streaming.collector.problem import Problem
from streaming.collector.reading import Reading
from streaming.collector.settings.thresholds import ThresholdSource
from streaming.collector.wire.connections import Address, EncodedRequest
from streaming.runtime.config import Config


@dataclass(frozen=True, slots=True)
class Setup:
    """The values that sources are made from."""

    config: Config
    client_id: str
    eligibility: ThresholdSource | None = None  # the source of thresholds that change at run time
    retry_denied_ms: int = RETRY_DENIED_MS  # the pause before a refused topic is requested again
    in_background: bool = False  # also make the sources that have their own thread


class Source(ABC):
    """The interface of a source."""

    about: ClassVar[Sequence[About]]
    read: Callable[..., Reading | None]
    """The reading of this cycle, None if there is none."""

    @classmethod
    @abstractmethod
    def make(cls, setup: Setup) -> Self | None:
        """Make the source; None if the configuration disables it."""

    @property
    def problems(self) -> Sequence[Problem]:
        """The problems of its latest requests."""
        return ()

    @property
    def off(self) -> Mapping[str, str]:
        """Why data need not be asked for at all, by the name of their ``About``."""
        return {}

    @property
    def answered(self) -> Set[int]:
        """API keys of the requests that were answered on connections of its own."""
        return frozenset()

    @property
    def rounds(self) -> int | None:
        """The number of rounds since the start, for a background source."""
        return None

    def update_metadata(self, brokers: Iterable[Address]) -> None:  # noqa: B027 - few need it
        """Use these brokers from now on."""

    def forget(self, brokers: Collection[int]) -> None:  # noqa: B027
        """Drop the data about all brokers except these."""

    def send_again(self, reading: Any) -> None:  # noqa: B027
        """Repeat in the next reading what is sent only once: this one did not reach the bus."""

    def close(self) -> None:  # noqa: B027
        """End the source's thread, if it has one."""


class EveryBrokerSource(Source):
    """A source whose requests go to every broker in each cycle, with those of other sources."""

    requests: Callable[..., Sequence[EncodedRequest]]
    """Make the requests to one ``broker`` from its ``versions`` and from readings."""
