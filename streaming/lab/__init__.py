"""A Kafka cluster on this machine, and the demo that shows the twin of it."""
