"""Spark's storage: keys of the state, files of workers, checkpoints."""
