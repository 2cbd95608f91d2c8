"""Algorithms of Kafka's brokers and controller, for many partitions at once; no rules."""
