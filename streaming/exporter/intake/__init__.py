"""Reads the bus: a thread and a connection a bus, which hand each cluster what is of it."""
