"""Makes a folder with the files that machines of a Spark platform need to run the query."""
