"""Reads snapshots and events; serves /metrics, a JSON API and a page. Scrapes never ask Kafka."""
