"""Rules about tiered storage: local logs, uploads, remote segments, where followers start."""
