"""The event log, and the stream of events to clients."""
