"""Consumer groups: the requests of one round, and its result as arrays and frames."""
