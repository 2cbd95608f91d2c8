"""The paths of the exporter and their answers: one file a group of paths."""
