"""Rules about replication: who is in sync, who left the ISR and why, who catches up."""
