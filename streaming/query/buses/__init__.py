"""Which clusters share a query: those of one bus, but for large ones."""
