"""Requests to brokers and the layouts of their responses. Kafka's protocol is known here alone."""
