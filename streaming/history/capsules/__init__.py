"""A capsule: a span of the past in one file, how it is written, and how it is read."""
