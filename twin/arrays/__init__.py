"""Helpers for the numpy arrays of tables: keys, replica slots, comparison, plain data."""
