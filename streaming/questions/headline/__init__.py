"""What the sentence on losses says first: troubles of the whole cluster."""
