"""Rules about partitions: leaders, growth, settings. Most other rules read their tables."""
