"""Threads for work that may hang."""
