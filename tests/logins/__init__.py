"""How programs log in at brokers: the mechanisms, right and wrong."""
