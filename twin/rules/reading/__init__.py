"""Rules about consumers' reads: from which replica, what is out of range or blocked."""
