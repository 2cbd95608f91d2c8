"""A report of what happened between two moments of the past: what, why, and what is not known."""
