"""What differs between two moments of the past: decisions, sizes and groups, and in sentences."""
