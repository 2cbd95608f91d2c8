"""One cycle: reads the sources and turns their readings into messages for the bus."""
