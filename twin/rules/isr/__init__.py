"""Rules about the ISR: who is in it, who left it and why."""
