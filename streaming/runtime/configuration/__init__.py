"""What settings may be, and which of them are secrets."""
