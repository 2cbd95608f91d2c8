"""What the states of a span show, collected cycle by cycle."""
