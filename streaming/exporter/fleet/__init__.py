"""Several clusters in one exporter: each below a path of its own, and what is said of all."""
