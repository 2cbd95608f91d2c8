"""Parts of every program: configuration, logs, liveness, supervision, clients, jars, units."""
