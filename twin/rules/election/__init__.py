"""Rules about leader election: who leads next, by which election rule, and what that costs."""
