"""The engine: checks declarations, runs rules in order, keeps the state of a shard, encodes it."""
