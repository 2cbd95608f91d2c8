"""What every program needs: configuration, logs, liveness, supervision, Kafka clients, jars."""
