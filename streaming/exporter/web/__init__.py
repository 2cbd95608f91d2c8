"""Who may ask the exporter, and the headers of its answers."""
