"""Cluster rules about disks: what is in them, when they are full, and which have failed."""
