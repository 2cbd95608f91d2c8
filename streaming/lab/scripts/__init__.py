"""Incidents that the demo plays on its brokers, and what it says of them afterwards."""
