"""Questions that the command line and the exporter answer alike, from the newest snapshots."""
