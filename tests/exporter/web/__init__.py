"""Tests of who may ask the exporter, and of its certificate."""
