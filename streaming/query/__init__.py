"""The Spark query: observations in, snapshots and events out."""
