"""Rules about what brokers carry: bytes that are written and read, now and after a loss."""
