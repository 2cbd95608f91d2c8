"""Requests to brokers and the layouts of their responses. Other folders do not know Kafka's
protocol."""
