"""The script for spark-submit, in a folder of its own: its folder comes first on Python's path."""
