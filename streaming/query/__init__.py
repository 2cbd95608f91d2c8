"""The Spark query: reads observations, writes snapshots and events."""
