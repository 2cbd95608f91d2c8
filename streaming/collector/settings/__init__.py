"""Settings: of Kafka, as columns, and thresholds from the twin's own configuration."""
