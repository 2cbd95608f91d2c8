"""Ports of all programs: sockets, and open paths for probes."""
