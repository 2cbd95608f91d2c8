"""Grafana from outside: its HTTP API, the `grafana` commands, and annotations of events."""
