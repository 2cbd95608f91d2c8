"""What stops while a partition of one of Kafka's own topics cannot be written."""

from __future__ import annotations

from twin.declarations.declare import api_field
from twin.kafka.kafka_topics import WHAT_STOPS
from twin.tables.state import PartitionIndex, Topics


@api_field(
    "what_stops",
    "of Kafka's own topics: what stops while the partition has no leader or refuses writes; else "
    "null",
)
def what_stops(index: PartitionIndex, topics: Topics) -> list[str | None]:
    """By the name of the topic."""
    of_topic = [WHAT_STOPS.get(str(topic)) for topic in topics.topic.tolist()]
    return [of_topic[row] for row in index.topic_index.tolist()]
