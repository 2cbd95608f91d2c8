"""The paths of the exporter and their answers: one file for each group of paths."""
