"""A source: a part of the collector that asks brokers, in one file.

``read`` returns what the source found out in a cycle. Its parameters are readings of the sources
before it, by their classes, and the connections (``CycleContext``) if it asks by itself. A source
that asks every broker in each cycle has ``requests`` in addition: all such sources share one round
trip, and ``read`` gets the answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from streaming.collector.about import About
from streaming.collector.denied import RETRY_DENIED_MS
from streaming.collector.problem import Problem
from streaming.collector.reading import Reading
from streaming.collector.settings.eligibility_file import EligibilityFile
from streaming.collector.wire.brokers import Address, EncodedRequest
from streaming.runtime.config import Config


@dataclass(frozen=True, slots=True)
class Setup:
    """What sources are made of."""

    config: Config
    client_id: str
    eligibility: EligibilityFile | None = None  # where thresholds may change while it runs
    retry_denied_ms: int = RETRY_DENIED_MS  # when a topic that was refused is asked for again
    in_background: bool = False  # also make the sources that have a thread of their own


class Source(ABC):
    """What the collector knows of a source."""

    about: ClassVar[Sequence[About]]
    read: Callable[..., Reading | None]
    """What it found out in this cycle, None if that is nothing."""

    @classmethod
    @abstractmethod
    def make(cls, setup: Setup) -> Self | None:
        """The source of a collector; None if the configuration leaves it out."""

    @property
    def problems(self) -> Sequence[Problem]:
        """What it could not find out, as of when it last asked."""
        return ()

    @property
    def rounds(self) -> int | None:
        """Rounds since the start, if it is read beside the cycles."""
        return None

    def update_metadata(self, brokers: Iterable[Address]) -> None:  # noqa: B027 - few need it
        """These are the brokers from now on."""

    def forget(self, brokers: Collection[int]) -> None:  # noqa: B027
        """Drop what is remembered of all brokers but these."""

    def send_again(self, reading: Any) -> None:  # noqa: B027
        """The bus did not take what was read: include in the next what is sent only once."""

    def close(self) -> None:  # noqa: B027
        """End what runs beside the cycles."""


class EveryBrokerSource(Source):
    """A source whose requests go to every broker in each cycle, together with those of others."""

    requests: Callable[..., Sequence[EncodedRequest]]
    """The requests to one broker, given ``broker``, its ``versions``, and readings."""
