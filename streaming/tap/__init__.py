"""The tap: what brokers' own logs report about fetches and ISRs, as observations."""
