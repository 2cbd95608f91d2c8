"""The bus: its topics, the clients that write and read them, and the snapshots in them."""
