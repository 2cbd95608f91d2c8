"""How programs serve metrics about themselves: formats that Prometheus' client library lacks."""
