"""The domain of kafka-twin: pure functions on tables of partitions.

Knows what Kafka's documents say about replicas, leaders and tiered logs. Knows no clock, no
network, no log, no Spark, no Kafka client: time comes in as a parameter, observations as tables.
"""
