"""Tables that are observed, or kept of what was observed. Findings are in ``twin.rules``."""
