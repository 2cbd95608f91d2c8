"""Remote segments and leader epochs of single partitions, sequential as in Kafka itself."""
