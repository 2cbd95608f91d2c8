"""Kafka messages that kafka-python lacks, as it declares those that it has."""
