"""Questions about a state: the loss or restart of brokers, other settings. Nothing is changed."""
