"""Snapshots and events in, /metrics, a JSON API and a page out. Scrapes never touch Kafka."""
