"""Serves an application: its socket, certificate and headers, and who may ask it."""
