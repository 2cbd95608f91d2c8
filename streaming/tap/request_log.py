"""The fields of Kafka's request log (``kafka.request.logger`` at DEBUG) that the tap reads.

Names of classes and fields are those of Kafka's messages (``FetchRequest.json`` and so on); a
field that is not read is not declared. Newer versions of Fetch name topics by id, older by name.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from twin.declarations.table import UNKNOWN

FETCH: Final = 1
LIST_OFFSETS: Final = 2
ALTER_PARTITION: Final = 56

EARLIEST_PENDING_UPLOAD: Final = -6
"""ListOffsets timestamp: the first offset that is not in remote storage yet (KIP-1023)."""

METADATA_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
"""``__cluster_metadata``: controllers fetch it from each other, and it has no ISR."""


# Fetch


class FetchRequestPartition(Struct, gc=False, rename="camel"):
    """A partition in a fetch of a follower."""

    partition: int
    fetch_offset: int
    current_leader_epoch: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    partition_max_bytes: int = 1 << 20


class FetchRequestTopic(Struct, gc=False, rename="camel"):
    """The fetched partitions of a topic."""

    partitions: list[FetchRequestPartition]
    topic_id: str = ""
    topic: str = ""

    @property
    def key(self) -> str:
        """The topic's id, or its name in versions without ids."""
        return self.topic_id or self.topic


class ForgottenTopic(Struct, gc=False, rename="camel"):
    """Partitions to remove from the fetch session (KIP-227)."""

    partitions: list[int]
    topic_id: str = ""
    topic: str = ""

    @property
    def key(self) -> str:
        """The topic's id, or its name in versions without ids."""
        return self.topic_id or self.topic


class LoggedReplicaState(Struct, gc=False, rename="camel"):
    """The follower that fetches, and its broker epoch."""

    replica_id: int = UNKNOWN
    replica_epoch: int = UNKNOWN


class FetchRequest(Struct, gc=False, rename="camel"):
    """A fetch; before version 15 the follower is in ``replica_id``."""

    topics: list[FetchRequestTopic]
    replica_state: LoggedReplicaState | None = None
    replica_id: int = UNKNOWN
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 10 << 20
    session_id: int = 0
    session_epoch: int = UNKNOWN
    forgotten_topics_data: list[ForgottenTopic] = []


class FetchResponsePartition(Struct, gc=False, rename="camel"):
    """The response for one partition."""

    partition_index: int
    error_code: int = 0
    high_watermark: int = UNKNOWN
    records_size_in_bytes: int = 0


class FetchResponseTopic(Struct, gc=False, rename="camel"):
    """The responses for the partitions of a topic."""

    partitions: list[FetchResponsePartition]
    topic_id: str = ""
    topic: str = ""

    @property
    def key(self) -> str:
        """The topic's id, or its name in versions without ids."""
        return self.topic_id or self.topic


class FetchResponse(Struct, gc=False, rename="camel"):
    """The response to a fetch; partitions without anything to report are left out of it."""

    error_code: int = 0
    session_id: int = 0
    responses: list[FetchResponseTopic] = []


class RequestHeader(Struct, gc=False, rename="camel"):
    """The header of a request."""

    client_id: str | None = ""


class CompletedFetch(Struct, gc=False, rename="camel"):
    """A line about a fetch.

    ``request`` is the empty string if the broker parsed the request before its log was enabled.
    """

    request_header: RequestHeader
    request: FetchRequest | str
    response: FetchResponse | str | None
    total_time_ms: float
    request_queue_time_ms: float = 0.0
    local_time_ms: float = 0.0
    remote_time_ms: float = 0.0
    response_queue_time_ms: float = 0.0
    send_time_ms: float = 0.0


# ListOffsets


class ListOffsetsRequestPartition(Struct, gc=False, rename="camel"):
    """A partition whose offset for ``timestamp`` is requested."""

    partition_index: int
    timestamp: int = 0


class ListOffsetsRequestTopic(Struct, gc=False, rename="camel"):
    """The requested partitions of a topic."""

    name: str
    partitions: list[ListOffsetsRequestPartition]


class ListOffsetsRequest(Struct, gc=False, rename="camel"):
    """A request for offsets; ``replica_id`` is the follower's broker id."""

    topics: list[ListOffsetsRequestTopic]
    replica_id: int = UNKNOWN


class ListOffsetsResponsePartition(Struct, gc=False, rename="camel"):
    """The offset of a partition."""

    partition_index: int
    error_code: int = 0
    offset: int = UNKNOWN


class ListOffsetsResponseTopic(Struct, gc=False, rename="camel"):
    """The offsets of a topic's partitions."""

    name: str
    partitions: list[ListOffsetsResponsePartition]


class ListOffsetsResponse(Struct, gc=False, rename="camel"):
    """The response to a request for offsets."""

    topics: list[ListOffsetsResponseTopic]


class CompletedListOffsets(Struct, gc=False, rename="camel"):
    """A line about a request for offsets; ``request`` as in ``CompletedFetch``."""

    request: ListOffsetsRequest | str
    response: ListOffsetsResponse | str | None
    total_time_ms: float


# AlterPartition


class AlterPartitionRequestPartition(Struct, gc=False, rename="camel"):
    """A partition whose ISR the leader wants to change, from the state of ``partition_epoch``."""

    partition_index: int
    leader_epoch: int = UNKNOWN
    partition_epoch: int = UNKNOWN


class AlterPartitionRequestTopic(Struct, gc=False, rename="camel"):
    """The partitions of a topic whose ISR the leader wants to change."""

    partitions: list[AlterPartitionRequestPartition]
    topic_id: str = ""


class AlterPartitionRequest(Struct, gc=False, rename="camel"):
    """A leader's request to the controller; ``broker_id`` is the leader."""

    broker_id: int
    topics: list[AlterPartitionRequestTopic]


class AlterPartitionResult(Struct, gc=False, rename="camel"):
    """The ISR of a partition after the change, and the partition epoch of that state."""

    partition_index: int
    error_code: int = 0
    isr: list[int] = []
    partition_epoch: int = UNKNOWN


class AlterPartitionResponseTopic(Struct, gc=False, rename="camel"):
    """The results for the partitions of a topic."""

    partitions: list[AlterPartitionResult]
    topic_id: str = ""


class AlterPartitionResponse(Struct, gc=False, rename="camel"):
    """The controller's response."""

    error_code: int = 0
    topics: list[AlterPartitionResponseTopic] = []


class CompletedAlterPartition(Struct, gc=False, rename="camel"):
    """A line about a change of ISRs, from the active controller; ``request`` as above."""

    request: AlterPartitionRequest | str
    response: AlterPartitionResponse | str | None
    total_time_ms: float
