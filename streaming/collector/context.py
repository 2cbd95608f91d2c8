"""The connections and deadlines that all sources of one cycle share."""

from __future__ import annotations

from dataclasses import dataclass

from streaming.collector.brokers import BrokerConnections, BrokerResponse, RequestFactory
from streaming.collector.problem import timeout
from streaming.runtime.deadline import Deadline


@dataclass(frozen=True, slots=True)
class CycleContext:
    """The brokers that a cycle asks, and its deadlines."""

    brokers: BrokerConnections
    metadata_broker: int  # the broker that listed the cluster in this cycle
    deadline_ms: int  # of each source

    def deadline(self, share: float = 1.0) -> Deadline:
        """The deadline of a source that begins now; ``share`` is the part that it may use."""
        return Deadline.after_ms(self.deadline_ms * share)

    def ask_metadata_broker(self, make: RequestFactory, deadline: Deadline) -> BrokerResponse:
        """The responses of the metadata broker."""
        if deadline.left_ms == 0:
            return BrokerResponse((), timeout("broker", self.metadata_broker), -1)
        return self.brokers.ask([self.metadata_broker], make, deadline)[self.metadata_broker]
