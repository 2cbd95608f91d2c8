"""The command line, and the commands that are no program of their own."""
