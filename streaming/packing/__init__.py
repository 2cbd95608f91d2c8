"""A folder with the files that the machines of a Spark platform need to run the query."""
