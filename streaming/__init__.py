"""All of kafka-twin that touches the world: collector, Spark query, exporter, command line."""
