"""Prometheus' text format, made of snapshots."""
