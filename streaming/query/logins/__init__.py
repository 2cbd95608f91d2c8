"""How Kafka's Java client, which Spark uses, logs in."""
