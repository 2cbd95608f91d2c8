"""One cycle: the sources are read, and their readings become messages for the bus."""
