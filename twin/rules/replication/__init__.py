"""Rules about replication: who is caught up, who is about to leave the ISR, who catches up."""
