"""The command line, and the commands that are not long-running programs."""
