"""Reads a reassignment that something else proposes: a file for Kafka's tool, or Cruise Control's.

The file comes from elsewhere, so its size is bounded and its values are checked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from streaming.plans.plan import Key, PlanError

MAX_BYTES: Final = 256 << 20
"""Kafka's tool needs about 60 bytes for a partition."""

_Id = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Replicas = Annotated[list[_Id], Meta(min_length=1, max_length=1_000)]
_Topic = Annotated[str, Meta(min_length=1, max_length=249)]


class _Assigned(msgspec.Struct):
    """A partition as kafka-reassign-partitions.sh reads it."""

    topic: _Topic
    partition: _Id
    replicas: _Replicas


class _TopicPartition(msgspec.Struct):
    topic: _Topic
    partition: _Id


class _Proposal(msgspec.Struct, rename="camel"):
    """A partition as Cruise Control answers it (ExecutionProposal.getJsonStructure)."""

    topic_partition: _TopicPartition
    new_replicas: _Replicas


class _File(msgspec.Struct):
    partitions: list[_Assigned] | None = None
    proposals: list[_Proposal] | None = None


def read_proposal(path: Path) -> dict[Key, tuple[int, ...]]:
    """The proposed replicas of each partition, slot 0 first.

    Raises:
        PlanError: the file cannot be read, is neither of the two, or names a partition or a replica
            twice.
    """
    try:
        if (size := path.stat().st_size) > MAX_BYTES:
            raise PlanError(f"{path} has {size} bytes: more than {MAX_BYTES} are not read")
        text = path.read_bytes()
    except OSError as error:
        raise PlanError(f"{path}: {error.strerror}") from None
    try:
        file = msgspec.json.decode(text, type=_File)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise PlanError(f"{path} is not a reassignment: {error}") from None
    if file.partitions is None and file.proposals is None:
        raise PlanError(
            f"{path} is not a reassignment: it has neither partitions "
            "(kafka-reassign-partitions.sh) nor proposals (Cruise Control, json=true)"
        )
    them = [((each.topic, each.partition), each.replicas) for each in file.partitions or ()]
    them += [
        ((each.topic_partition.topic, each.topic_partition.partition), each.new_replicas)
        for each in file.proposals or ()
    ]
    proposed: dict[Key, tuple[int, ...]] = {}
    for key, replicas in them:
        name = f"{key[0]}-{key[1]}"
        if key in proposed:
            raise PlanError(f"{path} names {name} twice")
        if len(set(replicas)) != len(replicas):
            raise PlanError(f"{path} names a replica of {name} twice: {replicas}")
        proposed[key] = tuple(replicas)
    return proposed
