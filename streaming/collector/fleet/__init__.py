"""Several clusters in one collector: a thread of each, none of which waits for another."""
