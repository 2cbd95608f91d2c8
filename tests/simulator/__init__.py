"""A simulated shard of a Kafka cluster, for tests, the demo and the bench."""
