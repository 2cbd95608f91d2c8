"""What logs on disk will take: a model of retention and uploads, and its sums by log directory."""
