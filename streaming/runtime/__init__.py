"""Parts that every program needs: configuration, logs, liveness, supervision, clients, jars."""
