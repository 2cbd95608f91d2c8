"""What the machines of a Spark platform need of the twin, as a folder of files."""
