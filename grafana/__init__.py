"""Grafana dashboards as code: ``python -m grafana`` writes the JSON that is committed."""
