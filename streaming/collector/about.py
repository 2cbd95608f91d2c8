"""The description of a source: its name, what is unknown without it, and the right it needs.

The names of problems, ``kafka-twin check``, the commands that grant rights, the collector's own
metrics and the tables in docs/security.md and docs/troubleshooting.md are made of this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

Resource = Literal["topic", "group", "cluster", "transactional-id"]
"""Kafka's types of resources, as kafka-acls.sh names them."""


@dataclass(frozen=True, slots=True)
class Acl:
    """An operation on all resources of a type, in Kafka's words."""

    operation: str
    resource: Resource
    option: str = ""  # the setting that makes the right unnecessary; empty: none

    @property
    def covers(self) -> str:
        """The resources in words, to be put into a sentence."""
        return (
            "the cluster" if self.resource == "cluster" else f"{self.resource.replace('-', ' ')}s"
        )


@dataclass(frozen=True, slots=True)
class Needed:
    """A request that a source cannot do without, as kafka-python's class, and its versions."""

    message: Any
    since: str  # the first Kafka whose brokers have it
    lowest: int = 0  # the first version that the source can use
    highest: int | None = None  # the last version whose response it understands; None: any

    @property
    def name(self) -> str:
        """Kafka's name of the request."""
        return str(self.message.name).removesuffix("Request")


@dataclass(frozen=True, slots=True)
class About:
    """One kind of data that a source reads."""

    name: str  # the name in problems and metrics
    without: str  # what is unknown without it
    right: Acl | None = None  # None: no right, or the right of another source
    every: str = ""  # setting of its interval in ms; empty: it is read in each cycle
    needs: tuple[Needed, ...] = ()  # empty: it sends no request to a broker
    option: str = ""  # the setting that switches it on; empty: that of its right
    idle: str = "there is nothing to ask about"  # why a cycle may send no request


CLUSTER: Final = About("cluster", "everything")
BROKER: Final = About("broker", "the state of its replicas; their last values become stale")
BUS: Final = About("bus", "all updates: observations cannot be written")
NO_SOURCES: Final = (CLUSTER, BROKER, BUS)
"""Connections to the brokers and to the bus are not sources, but they report problems too."""
