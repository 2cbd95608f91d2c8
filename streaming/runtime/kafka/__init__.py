"""Kafka as every program needs it: clients, encodings, and access to one topic."""
