"""Declarations: tables and their columns, rules by their signatures, metrics, risks and events."""
