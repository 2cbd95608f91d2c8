"""A Kafka cluster on this machine, the jars it and Spark need, and the demo that uses both."""
