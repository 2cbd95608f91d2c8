"""The tap: what brokers' own logs tell of fetches and ISRs, as observations."""
