"""Rules about brokers and their racks."""
