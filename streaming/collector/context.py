"""The connections and deadlines that all sources of one cycle share."""

from __future__ import annotations

from dataclasses import dataclass

from streaming.collector.about import BROKER
from streaming.collector.problem import timeout
from streaming.collector.wire.connections import BrokerConnections, BrokerResponse, RequestFactory
from streaming.runtime.deadline import Deadline
from twin.declarations.table import UNKNOWN


@dataclass(frozen=True, slots=True)
class CycleContext:
    """The brokers that a cycle asks, and its deadlines."""

    brokers: BrokerConnections
    metadata_broker: int  # the broker that listed the cluster in this cycle
    deadline_ms: int  # of each source
    controller: int = UNKNOWN  # from Metadata; with KRaft this is any live broker

    @property
    def has_metadata_broker(self) -> bool:
        """Whether a broker has listed the cluster in this cycle."""
        return self.metadata_broker != UNKNOWN

    def deadline(self, share: float = 1.0) -> Deadline:
        """The deadline of a source that begins now; ``share`` is the fraction of time it may
        use."""
        return Deadline.after_ms(self.deadline_ms * share)

    def ask_metadata_broker(self, make: RequestFactory, deadline: Deadline) -> BrokerResponse:
        """The responses of the metadata broker."""
        return self.ask(self.metadata_broker, make, deadline)

    def ask(self, broker: int, make: RequestFactory, deadline: Deadline) -> BrokerResponse:
        """The responses of one broker."""
        if deadline.left_ms == 0:
            return BrokerResponse((), timeout(BROKER.name, broker), UNKNOWN)
        return self.brokers.ask([broker], make, deadline)[broker]
