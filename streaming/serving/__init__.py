"""Serves an application over HTTP or TLS: for the exporter and the admission webhook."""
