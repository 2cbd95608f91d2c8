"""Rules about consumer groups: lag, where they read, and what they lose."""
