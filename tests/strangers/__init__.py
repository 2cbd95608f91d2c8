"""The twin on five brokers of a cluster that nobody tuned: day one, a roll, and its life."""
