"""The program that writes the archive: a Spark query of its own beside the twin's."""
