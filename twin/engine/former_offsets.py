"""Offsets that groups committed to partitions that are gone.

A topic that is made again under the name of a deleted one is another topic. Kafka deletes the
offsets of a deleted topic, but a consumer that goes on commits its old position to the new one
(KAFKA-12257), and no broker tells those offsets from others. So they are remembered for a while.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from twin.declarations.table import UNKNOWN, Bool
from twin.engine.shard_state import ShardState
from twin.rules.groups.moves import GroupMoves
from twin.tables.state import FormerOffsets, Groups, PartitionIndex, Topics

_MOST: Final = 10_000
"""Rows that are kept; those that were read last stay."""


def with_former_offsets(state: ShardState, gone: Bool) -> ShardState:
    """The state that remembers what groups had committed to those partitions a cycle ago: frames
    of one cycle come in any order, and one of them may have changed it.

    Args:
        state: has the partitions yet.
        gone: [P] the partition is deleted.
    """
    moves = state.of_before(GroupMoves)
    moves = moves.pick(gone[moves.row] & (moves.committed_offset != UNKNOWN))
    if not len(moves):
        return state
    index, topics = state[PartitionIndex], state[Topics]
    topic = index.topic_index[moves.row]
    news = FormerOffsets(
        topic=topics.topic[topic],
        topic_id=topics.topic_id[topic],
        partition=index.partition[moves.row],
        group=state.of_before(Groups).group[moves.group_index],
        committed_offset=moves.committed_offset,
        read_at_ms=moves.read_at_ms,
    )
    both = zip(state[FormerOffsets].values(), news.values(), strict=True)
    joined = FormerOffsets.from_values(np.concatenate(pair) for pair in both)
    if len(joined.group) > _MOST:
        newest = np.argsort(joined.read_at_ms, kind="stable")[-_MOST:]
        joined = joined.pick(np.sort(newest))
    order = sorted(range(len(joined.group)), key=list(_keys(joined)).__getitem__)
    return state.with_tables(joined.pick(np.array(order, np.intp)))


def groups_of_former(state: ShardState) -> dict[tuple[str, int], list[str]]:
    """By topic and partition that a topic with another id has now: the groups that had offsets in
    the former one, sorted."""
    former, topics = state[FormerOffsets], state[Topics]
    ids = dict(zip(topics.topic, topics.topic_id, strict=True))
    found: dict[tuple[str, int], set[str]] = {}
    for topic, topic_id, partition, group, *_ in zip(*former.values(), strict=True):
        if ids.get(topic, topic_id) != topic_id:
            found.setdefault((topic, int(partition)), set()).add(group)
    return {place: sorted(groups) for place, groups in found.items()}


def _keys(former: FormerOffsets) -> list[tuple[str, int, str, bytes]]:
    columns = (former.topic, former.partition.tolist(), former.group, former.topic_id)
    return list(zip(*columns, strict=True))
