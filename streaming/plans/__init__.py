"""Plans: printed, written to files for Kafka's tools, and applied over the admin protocol."""
